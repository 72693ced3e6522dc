"""Where a server listens: a socket of its own, and the address that a person opens."""

import os
import socket
import sys
from contextlib import ExitStack
from dataclasses import dataclass

from jumok.errors import InputError
from jumok.viewer.security import is_loopback, new_token, validate_token


@dataclass(frozen=True)
class Address:
    """Host, port and token. The port is that of a socket which listens already.

    >>> str(Address("127.0.0.1", 8000, "secret"))
    'http://127.0.0.1:8000/#token=secret'
    """

    host: str
    port: int
    token: str

    @property
    def origin(self) -> str:
        """The address without what only the page should know."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}/"

    def with_state(self, state: str) -> str:
        """The whole address; what the page is to show stands behind the token."""
        return f"{self.origin}#token={self.token}{'&' if state else ''}{state}"

    def __str__(self) -> str:
        """The whole address."""
        return self.with_state("")


def listen(host: str, port: int, token: str | None) -> tuple[socket.socket, Address]:
    """A listening socket (port 0: a free one) and its address.

    Raises InputError when others than this machine could ask without a token that somebody chose,
    and when nothing can listen there.
    """
    if token is None and not is_loopback(host):
        raise InputError(
            f"at {host} other machines can reach the page; add --token with a secret of your own"
        )
    chosen = new_token() if token is None else validate_token(token)
    try:
        family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as on_failure:
            listener = on_failure.enter_context(socket.socket(family, kind))
            if os.name == "posix":  # elsewhere it would let others listen at the same place
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
            listener.listen()
            on_failure.pop_all()
    except (OSError, UnicodeError) as error:
        raise InputError(
            f"cannot listen at {host} port {port} ({error}); choose another --port or --host"
        ) from error
    return listener, Address(host, listener.getsockname()[1], chosen)


def has_display() -> bool:
    """Whether a browser could show something here.

    >>> has_display() in (True, False)
    True
    """
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
