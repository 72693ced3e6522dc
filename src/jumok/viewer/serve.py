"""A server from its first socket to Ctrl-C."""

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from jumok.viewer.address import Address
from jumok.viewer.security import AccessRules, AllowedHosts, GuardedApp
from jumok.viewer.server import OneTimeTokens, ServerContent, create_app

GOODBYE_SECONDS = 2  # how long a started answer may take after Ctrl-C


def make_server(address: Address, shown: ServerContent, tickets: OneTimeTokens) -> uvicorn.Server:
    """A server at an address, behind the rules; `run(sockets=[...])` starts it."""
    rules = AccessRules(AllowedHosts.of(address.host, address.port), address.token)
    return uvicorn.Server(
        uvicorn.Config(
            GuardedApp(create_app(shown, tickets), rules),
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=GOODBYE_SECONDS,
        )
    )


def serve(listener: socket.socket, server: uvicorn.Server) -> None:
    """Answer until Ctrl-C; SIGTERM and SIGHUP end the process after all is closed, too.

    The socket listens already, so whoever asks before the server is up is answered all the same.
    """
    with _ended_by_signals(server):
        try:
            server.run(sockets=[listener])
        except KeyboardInterrupt:  # uvicorn raises it again when all is closed
            return


@contextmanager
def _ended_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """Within, SIGTERM and SIGHUP close the server first and are exceptions then."""

    def end(number: int, frame: FrameType | None) -> None:
        if server.should_exit:  # uvicorn raises a signal again when all is closed
            raise SystemExit(128 + number)
        server.handle_exit(number, frame)

    wanted = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        wanted = []  # only the main thread can listen to signals
    before = {number: signal.signal(number, end) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
