"""The web application: access rules, error responses, metrics and logs around the routes."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from jumok.language import prefers_korean
from jumok.serving.logs import Log, location
from jumok.serving.metrics import Metrics
from jumok.serving.replies import RequestError, error_reply, invalid
from jumok.serving.requests import ClientGone, Headers, discard_body, header
from jumok.web_access import AllowedHosts

QUIET = ("/health", "/ready", "/metrics")  # their successes are not logged

Endpoint = Callable[[Request], Awaitable[Response]]

HASH_HEADER = b"x-jumok-model"
SECURITY_HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}


@dataclass(frozen=True)
class Route:
    """A path and the method that it accepts; `public`: no token is asked for."""

    method: str
    path: str
    endpoint: Endpoint
    public: bool = False


@dataclass(frozen=True)
class Access:
    """Who may send requests: known hosts on the loopback address, else requests with the token."""

    hosts: AllowedHosts
    token: str | None

    def violation(self, route: Route | None, method: str, headers: Headers) -> RequestError | None:
        """Why a request is refused; None if it is accepted."""
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        if len(hosts) != 1 or (self.token is None and not self.hosts.allows(hosts[0])):
            return invalid("the Host header must name this server; use its address", status=421)
        if method not in ("GET", "HEAD"):
            origin = header(headers, b"origin")
            if origin is not None and origin.lower().partition("://")[2] != hosts[0].lower():
                return invalid("requests of other origins are refused", status=403)
            if header(headers, b"sec-fetch-site") not in (None, "same-origin", "none"):
                return invalid("requests of other sites are refused", status=403)
        if self.token is None or (route is not None and route.public):
            return None
        given = header(headers, b"authorization") or ""
        if not secrets.compare_digest(given.encode(), f"Bearer {self.token}".encode()):
            return invalid("the header Authorization: Bearer TOKEN must be right", status=401)
        return None


class App:
    """The ASGI application."""

    def __init__(self, routes: list[Route], access: Access, metrics: Metrics, log: Log) -> None:
        self._routes: dict[str, dict[str, Route]] = {}
        for route in routes:
            self._routes.setdefault(route.path, {})[route.method] = route
        self._access, self._metrics, self._log = access, metrics, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        assert scope["type"] == "http"
        started = time.perf_counter()
        status, sent_hash = 0, ""
        method, path = scope["method"], scope["path"]
        methods = self._routes.get(path, {})
        route = methods.get("GET" if method == "HEAD" else method)

        async def send_with_headers(message: Message) -> None:
            nonlocal status, sent_hash
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = {**SECURITY_HEADERS, **dict(message["headers"])}
                message["headers"] = list(headers.items())
                sent_hash = headers.get(HASH_HEADER, b"").decode("latin-1")
            await send(message)

        request = Request(scope, receive)
        response = await self._respond(request, method, methods, route)
        if response is not None:
            await response(scope, receive, send_with_headers)
        name = path if route is not None else "other"
        seconds = time.perf_counter() - started
        self._metrics.add(name, status or 499, seconds)
        if name not in QUIET or status >= 400:
            self._log("reply", route=name, status=status or 499, seconds=seconds, hash=sent_hash)

    async def _respond(
        self, request: Request, method: str, methods: Mapping[str, Route], route: Route | None
    ) -> Response | None:
        """The response; None if the client has left. Errors are Korean if the client prefers it."""
        headers = request.scope["headers"]

        def refused(error: RequestError) -> Response:
            return error_reply(error, korean=prefers_korean(header(headers, b"accept-language")))

        try:
            violation = self._access.violation(route, method, headers)
            if violation is not None:
                await discard_body(request)
                return refused(violation)
            if not methods:
                raise invalid("there is no such address; see /openapi.json", status=404)
            if route is None:
                response = refused(
                    invalid("the method is not allowed here; see /openapi.json", status=405)
                )
                response.headers["allow"] = ", ".join(sorted(methods))
                return response
            return await route.endpoint(request)
        except RequestError as error:
            return refused(error)
        except ClientGone:
            return None
        except asyncio.CancelledError:  # of a text whose client left, or of this task
            task = asyncio.current_task()
            if task is None or not task.cancelling():
                return None
            return refused(
                RequestError(
                    503,
                    "server_error",
                    "the server shuts down; send it to another one",
                    retry_after=1,
                )
            )
        except Exception as error:
            self._log("bug", error=type(error).__name__, at=location(error))
            return refused(
                RequestError(500, "server_error", "an internal error; see the server's log")
            )
