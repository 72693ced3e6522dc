"""An ASGI application: routes behind access rules, errors as responses, headers on all of them."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message as AsgiMessage
from starlette.types import Receive, Scope, Send

from jumok.errors import Message
from jumok.language import prefers_korean
from jumok.web.access import AllowedHosts
from jumok.web.errors import RequestError
from jumok.web.requests import ClientGone, Headers, discard_body, header

Endpoint = Callable[[Request], Awaitable[Response]]

SECURITY_HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}
CLOSING = (400, 401, 403, 408, 413, 415, 421)  # statuses after which a body may be unread


@dataclass(frozen=True)
class Route:
    """A path and the method that it accepts; `public`: no token is asked for.

    A path that ends with `/*` has a name as its last part, which `last_part` returns.
    """

    method: str
    path: str
    endpoint: Endpoint
    public: bool = False


def last_part(request: Request) -> str:
    """The last part of the address of a request."""
    return str(request.scope["path"]).rpartition("/")[2]


WRONG_TOKEN = Message("request.wrong_token", "the header Authorization: Bearer TOKEN must be right")


@dataclass(frozen=True)
class Access:
    """Who may send requests.

    Any page that is open in a browser can send requests to a server on the loopback address. It
    cannot use a host name of its own (`hosts`; None accepts any), its requests carry its origin,
    and it does not have the token, which is the value of the header `token_header`.
    """

    hosts: AllowedHosts | None
    token: str | None
    token_header: bytes = b"authorization"
    refusal: Message = WRONG_TOKEN
    origins: Collection[str] = ()  # other origins that may send requests; "*": all

    def violation(self, route: Route | None, method: str, headers: Headers) -> RequestError | None:
        """Why a request is refused; None if it is accepted."""
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        if len(hosts) != 1 or (self.hosts is not None and not self.hosts.allows(hosts[0])):
            return RequestError(
                "request.unknown_host",
                "the Host header must name this server; use its address",
                status=421,
            )
        origin = header(headers, b"origin")
        allowed = origin is not None and not {origin, "*"}.isdisjoint(self.origins)
        if method not in ("GET", "HEAD") and not allowed:
            if origin is not None and origin.lower().partition("://")[2] != hosts[0].lower():
                return RequestError(
                    "request.other_origin", "requests of other origins are refused", status=403
                )
            if header(headers, b"sec-fetch-site") not in (None, "same-origin", "none"):
                return RequestError(
                    "request.other_site", "requests of other sites are refused", status=403
                )
        if self.token is None or (route is not None and route.public):
            return None
        given = header(headers, self.token_header) or ""
        if self.token_header == b"authorization":
            scheme, _, given = given.partition(" ")
            given = given if scheme.lower() == "bearer" else ""
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            return RequestError.of(self.refusal, 401)
        return None


@dataclass(frozen=True)
class Done:
    """A response that was sent: its route, or "other"; status 499 if the client left before."""

    route: str
    status: int
    seconds: float
    headers: Mapping[bytes, bytes]


class App:
    """The ASGI application.

    `error_body` makes the body of an error, in Korean or English; `explain` the error of an
    exception that is no RequestError; `help_address` describes the addresses.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        access: Access,
        *,
        error_body: Callable[[RequestError, bool], bytes],
        explain: Callable[[Exception], RequestError],
        help_address: str,
        headers: Mapping[bytes, bytes] = SECURITY_HEADERS,
        on_done: Callable[[Done], None] = lambda _: None,
    ) -> None:
        self._routes: dict[str, dict[str, Route]] = {}
        for route in routes:
            self._routes.setdefault(route.path, {})[route.method] = route
        self._access, self._error_body, self._explain = access, error_body, explain
        self._help_address, self._headers, self._on_done = help_address, headers, on_done

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        assert scope["type"] == "http"
        started = time.perf_counter()
        status, sent = 0, {}
        method, path = scope["method"], scope["path"]
        methods = self._routes.get(path) or self._routes.get(path.rpartition("/")[0] + "/*", {})
        route = methods.get("GET" if method == "HEAD" else method)

        async def send_with_headers(message: AsgiMessage) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status, sent = message["status"], {**self._headers, **dict(message["headers"])}
                message["headers"] = list(sent.items())
            await send(message)

        response = await self._respond(Request(scope, receive), method, methods, route)
        if response is not None:
            await response(scope, receive, send_with_headers)
        name = route.path if route is not None else "other"
        self._on_done(Done(name, status or 499, time.perf_counter() - started, sent))

    async def _respond(
        self, request: Request, method: str, methods: Mapping[str, Route], route: Route | None
    ) -> Response | None:
        """The response; None if the client has left. Errors are Korean if the client prefers it."""
        headers = request.scope["headers"]
        try:
            violation = self._access.violation(route, method, headers)
            if violation is not None:
                await discard_body(request)
                raise violation
            if not methods:
                raise RequestError(
                    "request.no_such_address",
                    "there is no such address; see {help_address}",
                    status=404,
                    help_address=self._help_address,
                )
            if route is None:
                raise RequestError(
                    "request.method_not_allowed",
                    "the method is not allowed here; see {help_address}",
                    status=405,
                    help_address=self._help_address,
                )
            return await route.endpoint(request)
        except RequestError as error:
            refusal = error
        except ClientGone:
            return None
        except asyncio.CancelledError:  # of a text whose client left, or of this task
            task = asyncio.current_task()
            if task is None or not task.cancelling():
                return None
            refusal = RequestError(
                "request.shutting_down",
                "the server shuts down; send it to another one",
                status=503,
                retry_after=1,
            )
        except Exception as error:
            refusal = self._explain(error)
        response = self._error_response(refusal, headers)
        if refusal.status == 405:
            response.headers["allow"] = ", ".join(sorted(methods))
        return response

    def _error_response(self, error: RequestError, request: Headers) -> Response:
        korean = prefers_korean(header(request, b"accept-language"))
        headers = {"vary": "accept-language"}
        if error.retry_after is not None:
            headers["retry-after"] = str(error.retry_after)
        if error.status in CLOSING:
            headers["connection"] = "close"
        if error.status == 401:
            headers["www-authenticate"] = "Bearer"
        body = self._error_body(error, korean)
        return Response(body, error.status, headers, "application/json")
