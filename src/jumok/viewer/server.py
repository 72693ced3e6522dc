"""The page's web server: routes for the page, its traces, and a model if there is one."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Route

from jumok.errors import InputError, JumokError
from jumok.viewer.job_queue import JobQueue, ServerBusyError
from jumok.viewer.request_schema import (
    MAX_BODY_BYTES,
    EffectsRequest,
    ModelCard,
    TraceRequest,
    read_object,
    read_text,
)
from jumok.viewer.responses import (
    GZIP_HEADER,
    MAX_GZIP_BYTES,
    error_response,
    gzip_range,
    json_response,
    parse_range,
)
from jumok.viewer.static_files import MEDIA_TYPES, static_file
from jumok.viewer.templating import render_template
from jumok.viewer.trace_store import TraceStore

if TYPE_CHECKING:
    from jumok.interpret.interventions import Effects

TRACE_SECONDS = 120.0
DRAWING_SECONDS = 60.0
BODY_SECONDS = 10.0

Endpoint = Callable[[Request], Awaitable[Response]]

_STATUS_MESSAGES = {
    404: "not found; the server may have removed an old trace",
    405: "method not allowed at this address; see docs/view.md",
    408: f"the request did not arrive within {BODY_SECONDS:.0f} seconds; send it again",
    413: f"the request is longer than {MAX_BODY_BYTES:,} bytes; send a shorter text",
}


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


def create_app(content: ServerContent, tickets: OneTimeTokens) -> Starlette:
    """The web application; `security` checks who may send requests to it."""
    endpoints = _Endpoints(content, tickets)
    static = {f"/{name}": partial(_static, name) for name in MEDIA_TYPES}
    get: dict[str, Endpoint] = {
        "/": endpoints.index,
        **static,
        "/api/model": endpoints.model,
        "/api/trace/{name}": endpoints.trace,
        "/api/page/{name}": endpoints.page,
        "/open/{ticket}": endpoints.open,
    }
    post: dict[str, Endpoint] = {
        "/api/trace": endpoints.make_trace,
        "/api/effects": endpoints.effects,
        "/api/figure": endpoints.figure,
        "/api/font": endpoints.font,
    }
    return Starlette(
        routes=[
            *(Route(path, _report_errors(endpoint)) for path, endpoint in get.items()),
            *(
                Route(path, _report_errors(endpoint), methods=["POST"])
                for path, endpoint in post.items()
            ),
        ],
        exception_handlers={HTTPException: _http_error},
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
            raise InputError("this page shows a trace file; start jumok view with a run")
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
        path = self._path(request.path_params["name"])
        size = path.stat().st_size
        if "range" in request.headers:
            part = parse_range(request.headers["range"], size)
            if part is None:
                response = error_response(
                    416, "invalid range; request bytes=first-last", request.headers
                )
                response.headers["content-range"] = f"bytes */{size}"
                return response
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

        path = self._path(request.path_params["name"])
        state, full = request.query_params.get("state", ""), "full" in request.query_params
        page = await self._drawing.submit(lambda: render_page(Trace.open(path), state, full))
        headers = {"content-disposition": 'attachment; filename="jumok.html"'}
        return Response(page, media_type="text/html", headers=headers)

    async def open(self, request: Request) -> Response:
        address = self._tickets.redeem(request.path_params["ticket"])
        if address is None:
            raise HTTPException(404)
        return RedirectResponse(address, 303)

    def _path(self, name: str) -> Path:
        path = self._content.store.path(name)
        if path is None or not path.is_file():
            raise HTTPException(404)
        return path


async def _static(name: str, request: Request) -> Response:
    file = static_file(name)
    if name.endswith(".woff2") or "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(file.content, media_type=file.media_type)
    headers = {"content-encoding": "gzip", "vary": "accept-encoding"}
    return Response(file.gzipped, media_type=file.media_type, headers=headers)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = _STATUS_MESSAGES.get(error.status_code, error.detail)
    return error_response(error.status_code, message, request.headers)


def _report_errors(endpoint: Endpoint) -> Endpoint:
    """The endpoint, with exceptions turned into error responses."""

    async def reporting(request: Request) -> Response:
        try:
            return await endpoint(request)
        except HTTPException:
            raise
        except ServerBusyError as error:
            return error_response(503, str(error), request.headers)
        except InputError as error:
            return error_response(400, str(error), request.headers)
        except JumokError as error:
            return error_response(500, str(error), request.headers)
        except Exception as error:
            message = f"{type(error).__name__}: {error}; this is a bug in jumok"
            return error_response(500, message, request.headers)

    return reporting


async def _read_json(request: Request) -> dict[str, object]:
    """The JSON object of a request; limits its type, size and duration."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise InputError(f"content-type must be application/json, got {media_type[:40]!r}")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise HTTPException(413)
    except TimeoutError:
        raise HTTPException(408) from None
    return read_object(bytes(body))
