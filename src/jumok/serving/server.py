"""Run the server: sockets, signals, the life of the service."""

import asyncio
import contextlib
import gc
import logging
import re
import resource
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import uvicorn
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response

from jumok.errors import InputError, JumokError
from jumok.serving.app import HASH_HEADER, create_app
from jumok.serving.computing import ModelSource
from jumok.serving.engine import EngineOptions
from jumok.serving.limits import Limits
from jumok.serving.logs import Log, LogFormat, LogLevel, LogStream
from jumok.serving.metrics import Metrics
from jumok.serving.openapi import ApiRoute, openapi
from jumok.serving.page import page_routes
from jumok.serving.replies import json_reply
from jumok.serving.routes import NativeRoutes
from jumok.serving.routes_openai import OpenAIRoutes
from jumok.serving.routes_tei import TeiRoutes
from jumok.serving.routes_traces import TraceRoutes
from jumok.serving.routes_translation import TranslationRoutes
from jumok.serving.service import ServedModel, Service, unique_names
from jumok.shipped import resolve_model
from jumok.tasks.runs.run_files import check_is_run
from jumok.threads import compute_threads
from jumok.web.access import AllowedHosts, is_loopback, open_listener, validate_token
from jumok.web.app import Access, Route
from jumok.web.errors import RequestError

BACKLOG = 4_096  # connections that the system keeps until they are accepted
# Attempts in one turn of the event loop; asyncio makes all of them even when no descriptor is free,
# and each failure costs a line in the log and a timer, which begins as many again.
ACCEPTS = 1
BACKLOG_SECONDS = 0.1  # for connections that were made before the shutdown
DRAIN_POLL_SECONDS = 0.02


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """The options of `jumok serve`."""

    folders: Sequence[str]
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 0  # processes of each model; 0: a thread of the server, if it needs no PyTorch
    precision: str | Sequence[str] | None = None  # NAME:VALUE is for one of the models
    decoding: tuple[str, ...] = ()  # likewise
    token: str | None = None
    log: LogFormat = "text"
    log_level: LogLevel = "info"
    traces: bool = False
    cors_origins: Sequence[str] = ()  # "*": all
    limits: Limits = field(default_factory=Limits)


def read_token(path: Path) -> str:
    """The token in a file. Raises InputError unless it is long enough."""
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise InputError(
            "server.token_file_unreadable",
            "--token-file must be a readable file, got {path} ({strerror}); check the path",
            path=path,
            strerror=error.strerror,
        ) from error
    return validate_token(text.strip(), "the token in --token-file")


def serve(options: ServeOptions) -> None:
    """Serve until SIGTERM or Ctrl-C. Raises JumokError if a model cannot be loaded."""
    if options.token is None and not is_loopback(options.host):
        raise InputError(
            "server.no_token",
            "other machines can reach {host}; add --token-file with a secret",
            host=options.host,
        )
    for origin in options.cors_origins:
        _check_origin(origin)
    names = unique_names(options.folders)
    for folder in map(resolve_model, options.folders):
        if not folder.exists():
            check_is_run(folder)  # before the server listens
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(open_listener(options.host, options.port, BACKLOG))
        _raise_file_limit()
        log = Log(options.log, options.log_level, sys.stderr)
        if options.log == "json":  # also what threads write
            stack.enter_context(contextlib.redirect_stderr(LogStream("computing", sys.stderr)))
        asyncio.run(_run(options, names, listener, log))


def _check_origin(origin: str) -> None:
    if origin != "*" and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/\s@?#*A-Z]+", origin):
        raise InputError(
            "server.invalid_origin",
            "--cors-origin must be * or SCHEME://HOST:PORT in lower case without a path, got "
            "{origin!r}; correct it",
            origin=origin,
        )


def model_sources(options: ServeOptions, names: Sequence[str]) -> list[list[ModelSource]]:
    """What is loaded for each model: once, or by each of its workers, which divide the threads."""
    n = max(options.workers, 1)
    return [
        [
            ModelSource(
                name=name,
                folder=str(folder),
                options=EngineOptions(
                    precision_of(name, names, options.precision),
                    decoding_of(name, names, options.decoding),
                    traces=options.traces,
                ),
                threads=max(compute_threads() // n, 1),
                isolated=options.workers > 0,
                log=options.log,
            )
        ]
        * n
        for name, folder in zip(names, options.folders, strict=True)
    ]


def precision_of(name: str, names: Sequence[str], given: str | Sequence[str] | None) -> str | None:
    """The value of --precision for a model: its own one, else the last one for all models.

    >>> [precision_of(name, ["nsmc", "koen"], ["nsmc:int8"]) for name in ("nsmc", "koen")]
    ['int8', None]
    """
    found: dict[str, str] = {}
    for value in [given] if isinstance(given, str) else given or ():
        owner, _, precision = value.rpartition(":")
        _check_owner("--precision", owner, names)
        found[owner] = precision
    return found.get(name, found.get(""))


def decoding_of(name: str, names: Sequence[str], given: Sequence[str]) -> tuple[str, ...]:
    """The values of --decoding for a model: those for all models, then its own ones.

    >>> decoding_of("koen", ["nsmc", "koen"], ["koen:beam=5", "koen:pattern=a:b", "seed=1"])
    ('seed=1', 'beam=5', 'pattern=a:b')
    """
    found: dict[str, list[str]] = {}
    for value in given:
        key, equals, setting = value.partition("=")
        owner, _, key = key.rpartition(":")
        _check_owner("--decoding", owner, names)
        found.setdefault(owner, []).append(key + equals + setting)
    return (*found.get("", ()), *found.get(name, ()))


def _check_owner(option: str, owner: str, names: Sequence[str]) -> None:
    if owner not in ("", *names):
        raise InputError(
            "server.unknown_name",
            "the name in {option} must be one of {names}, got {owner!r}; correct it",
            option=option,
            names=", ".join(names),
            owner=owner,
        )


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handlers, and with a grace for open connections."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """`_run` handles the signals."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen with the long backlog again, which asyncio has set to `ACCEPTS`."""
        await super().startup(sockets)
        for listener in sockets or []:
            listener.listen(BACKLOG)


async def _run(
    options: ServeOptions, names: Sequence[str], listener: socket.socket, log: Log
) -> None:
    log.capture("uvicorn.error", "uvicorn.access", "asyncio")
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # warnings are made by clients
    sources = model_sources(options, names)
    models = {
        name: ServedModel(each, options.limits, log)
        for name, each in zip(names, sources, strict=True)
    }
    service = Service(models)
    server = _Server(_config(options, service, listener, log))
    loop = asyncio.get_running_loop()
    failure: Exception | None = None

    async def end() -> None:
        """Listen until the accepted texts are answered: /ready shows that the server ends.

        uvicorn closes the listener first; then a load balancer sees refused connections only.
        """
        service.draining = True
        deadline = loop.time() + options.limits.grace_seconds
        await asyncio.sleep(BACKLOG_SECONDS)
        service.refuse()
        while not service.idle and loop.time() < deadline:
            await asyncio.sleep(DRAIN_POLL_SECONDS)
        rest = max(deadline - loop.time(), 0.0)
        server.config.timeout_graceful_shutdown = rest  # type: ignore[assignment]
        server.should_exit = True

    async def load() -> None:
        nonlocal failure
        try:
            await service.start()
        except Exception as error:
            failure = error
            server.should_exit = True
        gc.collect()
        gc.freeze()  # a collection would visit all objects of the modules: a pause of some 0.1 s

    async def reload() -> None:
        try:
            await service.reload()
        except (JumokError, RequestError, OSError) as error:
            log("reload failed", message=str(error)[:400])

    tasks: set[asyncio.Task[Any]] = set()

    def spawn(work: Any) -> None:
        task = loop.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: spawn(end()))
    loop.add_signal_handler(signal.SIGHUP, lambda: spawn(reload()))
    spawn(load())
    try:
        await server.serve(sockets=[listener])
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await service.close()
    if failure is not None:
        raise failure
    log("end")


def api_routes(
    service: Service, limits: Limits, metrics: Metrics, *, token: bool = False, traces: bool = False
) -> list[Route]:
    """All routes but those of the page."""
    routes = [
        *NativeRoutes(service, limits, metrics, traces=traces).routes,
        *TeiRoutes(service, limits).routes,
        *OpenAIRoutes(service, limits).routes,
        *TranslationRoutes(service, limits).routes,
        *(TraceRoutes(service, limits).routes if traces else ()),
    ]

    async def describe(request: Request) -> Response:
        return json_reply(openapi(version("jumok"), routes, token=token))

    routes.append(ApiRoute("GET", "/openapi.json", describe, summary="This description."))
    return routes


def _config(
    options: ServeOptions, service: Service, listener: socket.socket, log: Log
) -> uvicorn.Config:
    host, port = options.host, listener.getsockname()[1]
    metrics = Metrics(service)
    limits = options.limits
    routes = api_routes(service, limits, metrics, token=bool(options.token), traces=options.traces)
    hosts = AllowedHosts.of(host, port) if options.token is None else None
    access = Access(hosts, options.token, origins=frozenset(options.cors_origins))
    app: Any = create_app([*page_routes(), *routes], access, metrics, log)
    if options.cors_origins:
        app = CORSMiddleware(
            app,
            allow_origins=options.cors_origins,
            allow_methods=("GET", "POST"),
            allow_headers=("*",),
            expose_headers=(HASH_HEADER, "retry-after"),
        )
    name = f"[{host}]" if ":" in host else host
    log("listening", address=f"http://{name}:{port}/", models=list(service.models))
    return uvicorn.Config(
        app,
        http="h11",  # httptools skips the body of a request that offers an upgrade (h2c)
        h11_max_incomplete_event_size=limits.header_bytes,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=ACCEPTS,
        timeout_keep_alive=int(options.limits.keep_alive_seconds),
        timeout_graceful_shutdown=int(options.limits.grace_seconds),
    )


def _raise_file_limit() -> None:
    """Allow as many connections as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
