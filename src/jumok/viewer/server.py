"""The page's server: routes over files, traces and, where there is one, a model."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Route

from jumok.errors import InputError, JumokError
from jumok.viewer.job_queue import JobQueue, ServerBusyError
from jumok.viewer.ranges import GZIP_HEADER, MAX_GZIP_BYTES, gzip_range, parse_range
from jumok.viewer.request_schema import (
    MAX_BODY_BYTES,
    ModelCard,
    TraceRequest,
    read_object,
    read_text,
)
from jumok.viewer.responses import error_response, json_response
from jumok.viewer.shell import Boot, shell
from jumok.viewer.static_files import MEDIA_TYPES, static_file
from jumok.viewer.trace_store import TraceStore

TRACE_SECONDS = 120.0
DRAWING_SECONDS = 60.0
BODY_SECONDS = 10.0

Endpoint = Callable[[Request], Awaitable[Response]]

_SENTENCES = {
    404: "there is nothing at this address; a trace may have made room for newer ones",
    405: "this address is not asked in this way; see docs/view.md",
    408: f"the request did not arrive within {BODY_SECONDS:.0f} seconds; send it again",
    413: f"the request is longer than {MAX_BODY_BYTES:,} bytes; send a shorter text",
}


class Tracer(Protocol):
    """A model that can be asked for traces, one at a time."""

    @property
    def card(self) -> ModelCard:
        """What a page is told of it."""

    def trace(self, wanted: TraceRequest) -> bytes:
        """The file of a new trace. Raises JumokError."""


@dataclass(frozen=True)
class ServerContent:
    """What a server shows: traces, the first of them, and the model that makes more."""

    store: TraceStore
    card: ModelCard
    first_trace: str | None = None  # a name on the shelf
    tracer: Tracer | None = None


class OneTimeTokens:
    """Secrets good for one visit each: a browser is started with one, not with the token.

    The words a program is started with can be read by everybody on the machine.

    >>> tickets = OneTimeTokens()
    >>> ticket = tickets.issue("/#token=secret")
    >>> tickets.redeem(ticket), tickets.redeem(ticket)
    ('/#token=secret', None)
    """

    def __init__(self) -> None:
        self._places: dict[str, str] = {}

    def issue(self, place: str) -> str:
        """A new ticket for this place."""
        ticket = secrets.token_urlsafe(16)
        self._places[ticket] = place
        return ticket

    def redeem(self, ticket: str) -> str | None:
        """The place of a ticket, once."""
        return self._places.pop(ticket, None)


def create_app(shown: ServerContent, tickets: OneTimeTokens) -> Starlette:
    """The routes; what a request must bring for them is said in `security`."""
    tracing, drawing = JobQueue(TRACE_SECONDS), JobQueue(DRAWING_SECONDS)

    async def index(request: Request) -> Response:
        boot = Boot("live" if shown.tracer else "file", shown.first_trace)
        return Response(shell(boot), media_type="text/html")

    async def model(request: Request) -> Response:
        return json_response(asdict(shown.card))

    async def ask(request: Request) -> Response:
        if shown.tracer is None:
            raise InputError("this page shows a file, no model; start jumok view with a run")
        wanted = TraceRequest.of_json(await _object(request))
        content = await tracing.submit(partial(shown.tracer.trace, wanted))
        return json_response({"id": shown.store.add(content)})

    async def trace(request: Request) -> Response:
        path = _path(shown.store, request.path_params["name"])
        size = path.stat().st_size
        if "range" in request.headers:
            part = parse_range(request.headers["range"], size)
            if part is None:
                refused = error_response(
                    416, "no single range of this file; ask for bytes=first-last"
                )
                refused.headers["content-range"] = f"bytes */{size}"
                return refused
            if GZIP_HEADER in request.headers and part[1] - part[0] <= MAX_GZIP_BYTES:
                content = await run_in_threadpool(gzip_range, path, *part)
                told = {"content-range": f"bytes {part[0]}-{part[1] - 1}/{size}", GZIP_HEADER: "1"}
                return Response(content, 206, told, "application/octet-stream")
        return FileResponse(path, media_type="application/octet-stream")

    async def figure(request: Request) -> Response:
        from jumok.interpret.trace import Trace
        from jumok.viewer.figure_requests import FigureRequest, write_figure

        wanted = FigureRequest.of_json(await _object(request))
        path = _path(shown.store, wanted.trace)
        content = await drawing.submit(lambda: write_figure(Trace.open(path), wanted))
        return Response(content, media_type=wanted.media_type)

    async def font(request: Request) -> Response:
        from jumok.viewer.font_subset import subset

        text = read_text(await _object(request))
        return Response(await drawing.submit(lambda: subset(text)), media_type="font/ttf")

    async def page(request: Request) -> Response:
        from jumok.interpret.trace import Trace
        from jumok.viewer.page import render_page

        path = _path(shown.store, request.path_params["name"])
        state, full = request.query_params.get("state", ""), "full" in request.query_params
        content = await drawing.submit(lambda: render_page(Trace.open(path), state, full))
        name = {"content-disposition": 'attachment; filename="jumok.html"'}
        return Response(content, media_type="text/html", headers=name)

    async def enter(request: Request) -> Response:
        place = tickets.redeem(request.path_params["ticket"])
        if place is None:
            raise HTTPException(404)
        return RedirectResponse(place, 303)

    return Starlette(
        routes=[
            Route("/", _spoken(index)),
            *(Route(f"/{name}", _spoken(partial(_static, name))) for name in MEDIA_TYPES),
            Route("/api/model", _spoken(model)),
            Route("/api/trace", _spoken(ask), methods=["POST"]),
            Route("/api/trace/{name}", _spoken(trace)),
            Route("/api/figure", _spoken(figure), methods=["POST"]),
            Route("/api/font", _spoken(font), methods=["POST"]),
            Route("/api/page/{name}", _spoken(page)),
            Route("/open/{ticket}", _spoken(enter)),
        ],
        exception_handlers={HTTPException: _absent},
    )


async def _static(name: str, request: Request) -> Response:
    file = static_file(name)
    if name.endswith(".woff2") or "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(file.content, media_type=file.media_type)
    headers = {"content-encoding": "gzip", "vary": "accept-encoding"}
    return Response(file.gzipped, media_type=file.media_type, headers=headers)


def _path(store: TraceStore, name: str) -> Path:
    path = store.path(name)
    if path is None or not path.is_file():
        raise HTTPException(404)
    return path


async def _absent(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_response(error.status_code, _SENTENCES.get(error.status_code, error.detail))


def _spoken(endpoint: Endpoint) -> Endpoint:
    """The endpoint, whose errors are answered in one sentence."""

    async def spoken(request: Request) -> Response:
        try:
            return await endpoint(request)
        except HTTPException:
            raise
        except ServerBusyError as error:
            return error_response(503, str(error))
        except InputError as error:
            return error_response(400, str(error))
        except JumokError as error:
            return error_response(500, str(error))
        except Exception as error:
            sentence = f"{type(error).__name__}: {error}; this is a bug in jumok"
            return error_response(500, sentence)

    return spoken


async def _object(request: Request) -> dict[str, object]:
    """The JSON object of a request: small, soon there, and called JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise InputError(f"a request of type {kind[:40]!r} came; send application/json")
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
