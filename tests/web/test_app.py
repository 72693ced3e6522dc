"""The rules of requests that both servers share."""

import asyncio
from collections.abc import Iterable

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Scope

from jumok.web.access import AllowedHosts
from jumok.web.app import Access, App, Done, Route, last_part
from jumok.web.errors import RequestError

TOKEN = "a-token-of-letters"


async def echo(request: Request) -> Response:
    """The last part of the address."""
    if last_part(request) == "broken":
        raise ZeroDivisionError("secret")
    return Response(last_part(request))


def app(access: Access, done: list[Done]) -> App:
    """An application with a route of names, a public one, and one for POST."""
    return App(
        [
            Route("GET", "/names/*", echo),
            Route("GET", "/public", echo, public=True),
            Route("POST", "/public", echo),
        ],
        access,
        error_body=lambda error, korean: f"{error.message} {korean}".encode(),
        explain=lambda error: RequestError("test.bug", type(error).__name__, status=500),
        help_address="the manual",
        on_done=done.append,
    )


def ask(
    method: str,
    path: str,
    headers: Iterable[tuple[bytes, bytes]] = (),
    access: Access | None = None,
) -> tuple[Done, dict[bytes, bytes], bytes]:
    """The response to a request without a body."""
    done: list[Done] = []
    sent: list[Message] = []
    given = [*headers]
    if not any(name == b"host" for name, _ in given):
        given.append((b"host", b"localhost:80"))
    scope: Scope = {"type": "http", "method": method, "path": path, "headers": given}

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    rules = access or Access(AllowedHosts.of("127.0.0.1", 80), None)
    asyncio.run(app(rules, done)(scope, receive, send))
    (found,) = done
    assert sent[0]["status"] == found.status
    return found, dict(sent[0]["headers"]), sent[1]["body"]


def test_routes_by_method_and_path() -> None:
    done, headers, body = ask("GET", "/names/a%20b")
    assert (done.route, done.status, body) == ("/names/*", 200, b"a%20b")
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert ask("HEAD", "/public")[0].status == 200
    for path in ("/names", "/names/a/b", "/other", "/public/", "//names/a"):
        done, _, body = ask("GET", path)
        assert (done.route, done.status) == ("other", 404), path
        assert body == b"there is no such address; see the manual False"
    done, headers, _ = ask("PUT", "/public")
    assert (done.status, headers[b"allow"]) == (405, b"GET, POST")


def test_an_exception_is_explained() -> None:
    done, headers, body = ask("GET", "/names/broken", [(b"accept-language", b"ko")])
    assert (done.status, body) == (500, b"ZeroDivisionError True")
    assert headers[b"cache-control"] == b"no-store"


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (b"Bearer a-token-of-letters", 200),
        (b"bearer a-token-of-letters", 200),  # a scheme has no case
        (b"BEARER a-token-of-letters", 200),
        (b"Bearer a-token-of-lettera", 401),
        (b"Basic a-token-of-letters", 401),
        (b"a-token-of-letters", 401),
        (b"Bearer", 401),
        (b"", 401),
    ],
)
def test_the_token_of_a_header(given: bytes, status: int) -> None:
    done, headers, _ = ask("GET", "/names/a", [(b"authorization", given)], Access(None, TOKEN))
    assert done.status == status
    assert (b"www-authenticate" in headers) == (status == 401)
    assert ask("GET", "/public", [], Access(None, TOKEN))[0].status == 200
    assert ask("POST", "/public", [], Access(None, TOKEN))[0].status == 401


def test_a_token_in_a_header_of_its_own() -> None:
    access = Access(None, TOKEN, token_header=b"x-token", refusal="wrong")
    assert ask("GET", "/names/a", [(b"x-token", TOKEN.encode())], access)[0].status == 200
    refused = ask("GET", "/names/a", [(b"authorization", b"Bearer " + TOKEN.encode())], access)
    assert (refused[0].status, refused[2]) == (401, b"wrong False")


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        (b"host", b"evil.example", 421),
        (b"origin", b"http://localhost:80", 200),
        (b"origin", b"http://evil.example", 403),
        (b"origin", b"null", 403),
        (b"sec-fetch-site", b"same-origin", 200),
        (b"sec-fetch-site", b"cross-site", 403),
    ],
)
def test_requests_of_other_pages_are_refused(name: bytes, value: bytes, status: int) -> None:
    assert ask("POST", "/public", [(name, value)])[0].status == status


def test_other_origins_that_are_allowed() -> None:
    headers = [(b"origin", b"https://a.org"), (b"sec-fetch-site", b"cross-site")]
    for origins, status in (((), 403), (("https://b.org",), 403), (("https://a.org",), 405)):
        access = Access(None, None, origins=origins)
        assert ask("POST", "/names/a", headers, access)[0].status == status
    assert ask("POST", "/names/a", headers, Access(None, None, origins=["*"]))[0].status == 405
    foreign = [(b"sec-fetch-site", b"cross-site")]  # without its origin
    assert ask("POST", "/names/a", foreign, Access(None, None, origins=["*"]))[0].status == 403
