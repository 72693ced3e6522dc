"""Run the page's server, from the listening socket to Ctrl-C."""

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import uvicorn

from jumok.errors import Message, TraceError
from jumok.viewer.server import OneTimeTokens, ServerContent, create_app
from jumok.web.access import AllowedHosts, is_loopback, new_token, open_listener, validate_token
from jumok.web.app import Access

SHUTDOWN_SECONDS = 2  # time for responses in progress after Ctrl-C


@dataclass(frozen=True)
class Address:
    """Host, port and token of a listening socket.

    >>> str(Address("127.0.0.1", 8000, "secret"))
    'http://127.0.0.1:8000/#token=secret'
    """

    host: str
    port: int
    token: str

    @property
    def origin(self) -> str:
        """The address without the token."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}/"

    def with_state(self, state: str) -> str:
        """The address with the token and the state of the page."""
        return f"{self.origin}#token={self.token}{'&' if state else ''}{state}"

    def __str__(self) -> str:
        """The address with the token."""
        return self.with_state("")


def listen(host: str, port: int, token: str | None) -> tuple[socket.socket, Address]:
    """A listening socket (port 0: a free one) and its address.

    Raises InputError if other machines can reach the socket and no token is given, and if the
    socket cannot listen.
    """
    if token is None and not is_loopback(host):
        raise TraceError(
            "page.other_machines_reach",
            "other machines can reach {host}; add --token with a secret",
            host=host,
        )
    chosen = new_token() if token is None else validate_token(token)
    listener = open_listener(host, port)
    return listener, Address(host, listener.getsockname()[1], chosen)


def has_display() -> bool:
    """Whether a browser can be opened here.

    >>> has_display() in (True, False)
    True
    """
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def make_server(address: Address, content: ServerContent, tickets: OneTimeTokens) -> uvicorn.Server:
    """A server with access rules; `run(sockets=[...])` starts it."""
    access = Access(
        AllowedHosts.of(address.host, address.port),
        address.token,
        token_header=b"x-jumok-token",
        refusal=Message(
            "page.wrong_token",
            "the token must be right; open the whole address that jumok view printed",
        ),
    )
    return uvicorn.Server(
        uvicorn.Config(
            create_app(content, tickets, access),
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
    )


def serve(listener: socket.socket, server: uvicorn.Server) -> None:
    """Serve until Ctrl-C; SIGTERM and SIGHUP also shut down gracefully.

    The socket already listens, so requests sent before the server is up are answered, too.
    """
    with _graceful_signals(server):
        try:
            server.run(sockets=[listener])
        except KeyboardInterrupt:  # uvicorn raises it again after shutdown
            return


@contextmanager
def _graceful_signals(server: uvicorn.Server) -> Iterator[None]:
    """Within the context, SIGTERM and SIGHUP shut down the server and then raise SystemExit."""

    def end(number: int, frame: FrameType | None) -> None:
        if server.should_exit:  # uvicorn raises a signal again after shutdown
            raise SystemExit(128 + number)
        server.handle_exit(number, frame)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        numbers = []  # only the main thread can handle signals
    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
