"""The page's web server: routes for the page, its traces, and a model if there is one."""

import secrets
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response

from jumok.errors import InputError, JumokError, Message, TraceError
from jumok.language import prefers_korean
from jumok.viewer.job_queue import JobQueue
from jumok.viewer.request_schema import EffectsRequest, ModelCard, TraceRequest, read_text
from jumok.viewer.responses import (
    GZIP_HEADER,
    MAX_GZIP_BYTES,
    error_body,
    gzip_range,
    json_response,
    parse_range,
)
from jumok.viewer.static_files import MEDIA_TYPES, static_file
from jumok.viewer.templating import render_template
from jumok.viewer.trace_store import TraceStore
from jumok.web.app import SECURITY_HEADERS, Access, App, Route, last_part
from jumok.web.errors import RequestError
from jumok.web.requests import read_object

if TYPE_CHECKING:
    from jumok.interpret.interventions import Effects

TRACE_SECONDS = 120.0
DRAWING_SECONDS = 60.0

CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob: data:",
        "font-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self' http://127.0.0.1:* http://localhost:* vscode-webview:",
        "require-trusted-types-for 'script'",
    ]
)


@dataclass(frozen=True)
class _Body:
    """The limits of a request's body."""

    body_bytes: int = 64 * 2**10
    body_seconds: float = 10.0


BODY = _Body()


class Tracer(Protocol):
    """A model that makes traces, one at a time."""

    @property
    def card(self) -> ModelCard:
        """The model's description for the page."""

    def trace(self, request: TraceRequest) -> bytes:
        """The file of a new trace. Raises JumokError."""

    def effects(self, request: EffectsRequest) -> "Effects":
        """The effect of each head or hidden state on an answer. Raises JumokError."""


@dataclass(frozen=True)
class ServerContent:
    """What a server shows: the traces, the first one, and a model that makes more."""

    store: TraceStore
    card: ModelCard
    first_trace: str | None = None  # a name in the store
    tracer: Tracer | None = None


class OneTimeTokens:
    """Tokens for a single visit: the browser is started with one instead of the access token.

    Other users of the machine can read the arguments of a process.

    >>> tickets = OneTimeTokens()
    >>> ticket = tickets.issue("/#token=secret")
    >>> tickets.redeem(ticket), tickets.redeem(ticket)
    ('/#token=secret', None)
    """

    def __init__(self) -> None:
        self._addresses: dict[str, str] = {}

    def issue(self, address: str) -> str:
        """A new ticket for this address."""
        ticket = secrets.token_urlsafe(16)
        self._addresses[ticket] = address
        return ticket

    def redeem(self, ticket: str) -> str | None:
        """The address of a ticket, once."""
        return self._addresses.pop(ticket, None)


def create_app(content: ServerContent, tickets: OneTimeTokens, access: Access) -> App:
    """The web application."""
    endpoints = _Endpoints(content, tickets)
    files = [Route("GET", f"/{name}", partial(_static, name), public=True) for name in MEDIA_TYPES]
    routes = [
        Route("GET", "/", endpoints.index, public=True),
        Route("GET", "/open/*", endpoints.open, public=True),
        *files,
        Route("GET", "/api/model", endpoints.model),
        Route("GET", "/api/trace/*", endpoints.trace),
        Route("GET", "/api/page/*", endpoints.page),
        Route("POST", "/api/trace", endpoints.make_trace),
        Route("POST", "/api/effects", endpoints.effects),
        Route("POST", "/api/figure", endpoints.figure),
        Route("POST", "/api/font", endpoints.font),
    ]
    return App(
        routes,
        access,
        error_body=error_body,
        explain=_explain,
        help_address="docs/view.md",
        headers=SECURITY_HEADERS | {b"content-security-policy": CONTENT_SECURITY_POLICY.encode()},
    )


class _Endpoints:
    """The endpoints of a server; traces and drawings are computed one at a time."""

    def __init__(self, content: ServerContent, tickets: OneTimeTokens) -> None:
        self._content, self._tickets = content, tickets
        self._tracing, self._drawing = JobQueue(TRACE_SECONDS), JobQueue(DRAWING_SECONDS)

    async def index(self, request: Request) -> Response:
        boot = {
            "mode": "live" if self._content.tracer else "file",
            "trace": self._content.first_trace,
            "model": None,
            "state": "",
        }
        return Response(render_template("server.html", boot=boot), media_type="text/html")

    async def model(self, request: Request) -> Response:
        return json_response(asdict(self._content.card))

    def _tracer(self) -> Tracer:
        if self._content.tracer is None:
            raise TraceError(
                "page.shows_a_trace_file",
                "this page shows a trace file; start jumok view with a run",
            )
        return self._content.tracer

    async def effects(self, request: Request) -> Response:
        tracer = self._tracer()
        effects_request = EffectsRequest.of_json(await _read_json(request))
        effects = await self._tracing.submit(partial(tracer.effects, effects_request))
        return json_response(effects.to_table())

    async def make_trace(self, request: Request) -> Response:
        tracer = self._tracer()
        trace_request = TraceRequest.of_json(await _read_json(request))
        trace = await self._tracing.submit(partial(tracer.trace, trace_request))
        return json_response({"id": self._content.store.add(trace)})

    async def trace(self, request: Request) -> Response:
        path = self._path(last_part(request))
        size = path.stat().st_size
        if "range" in request.headers:
            part = parse_range(request.headers["range"], size)
            if part is None:
                error = RequestError(
                    "page.invalid_range", "invalid range; request bytes=first-last", status=416
                )
                korean = prefers_korean(request.headers.get("accept-language"))
                headers = {"content-range": f"bytes */{size}", "vary": "accept-language"}
                return Response(error_body(error, korean), 416, headers, "application/json")
            if GZIP_HEADER in request.headers and part[1] - part[0] <= MAX_GZIP_BYTES:
                data = await run_in_threadpool(gzip_range, path, *part)
                content_range = f"bytes {part[0]}-{part[1] - 1}/{size}"
                headers = {"content-range": content_range, GZIP_HEADER: "1"}
                return Response(data, 206, headers, "application/octet-stream")
        return FileResponse(path, media_type="application/octet-stream")

    async def figure(self, request: Request) -> Response:
        from jumok.interpret.trace import Trace
        from jumok.viewer.figure_requests import FigureRequest, write_figure

        figure = FigureRequest.of_json(await _read_json(request))
        path = self._path(figure.trace)
        data = await self._drawing.submit(lambda: write_figure(Trace.open(path), figure))
        return Response(data, media_type=figure.media_type)

    async def font(self, request: Request) -> Response:
        from jumok.viewer.font_subset import subset

        text = read_text(await _read_json(request))
        font = await self._drawing.submit(lambda: subset(text))
        return Response(font, media_type="font/ttf")

    async def page(self, request: Request) -> Response:
        from jumok.interpret.trace import Trace
        from jumok.viewer.page import render_page

        path = self._path(last_part(request))
        state, full = request.query_params.get("state", ""), "full" in request.query_params
        page = await self._drawing.submit(lambda: render_page(Trace.open(path), state, full))
        headers = {"content-disposition": 'attachment; filename="jumok.html"'}
        return Response(page, media_type="text/html", headers=headers)

    async def open(self, request: Request) -> Response:
        address = self._tickets.redeem(last_part(request))
        if address is None:
            raise _not_found()
        return RedirectResponse(address, 303)

    def _path(self, name: str) -> Path:
        path = self._content.store.path(name)
        if path is None or not path.is_file():
            raise _not_found()
        return path


async def _static(name: str, request: Request) -> Response:
    file = static_file(name)
    if name.endswith(".woff2") or "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(file.content, media_type=file.media_type)
    headers = {"content-encoding": "gzip", "vary": "accept-encoding"}
    return Response(file.gzipped, media_type=file.media_type, headers=headers)


def _explain(error: Exception) -> RequestError:
    """The response for an exception of an endpoint."""
    if isinstance(error, InputError):
        return RequestError.of(error.message)
    if isinstance(error, JumokError):
        return RequestError.of(error.message, 500)
    message = Message(
        "page.bug",
        "{kind}: {error}; this is a bug in jumok",
        kind=type(error).__name__,
        error=str(error),
    )
    return RequestError.of(message, 500)


async def _read_json(request: Request) -> dict[str, object]:
    """The JSON object of a request; its texts may hold half surrogate pairs."""
    return await read_object(request, BODY, allow_surrogates=True)


def _not_found() -> RequestError:
    return RequestError(
        "page.not_found", "not found; the server may have removed an old trace", status=404
    )
