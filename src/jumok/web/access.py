"""Who may send requests to a server on this machine: known host names, tokens, listening sockets.

The page of `jumok view` and `jumok serve` share these rules. A server on the loopback address is
reachable from any page that is open in a browser, so the name in the Host header is checked: a
foreign page cannot use it even if its own name resolves to this machine (DNS rebinding).
"""

import ipaddress
import os
import re
import secrets
import socket
from contextlib import ExitStack
from dataclasses import dataclass

from jumok.errors import InputError

MIN_TOKEN_CHARS = 16  # of a token given by the user
LOOPBACK = ("127.0.0.1", "localhost", "::1")

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]/@\s]+)(?::([0-9]{1,5}))?")


def new_token() -> str:
    """128 random bits as 22 URL-safe characters."""
    return secrets.token_urlsafe(16)


def validate_token(token: str, name: str = "--token") -> str:
    """A user's token. Raises InputError unless it is long enough and URL-safe.

    >>> validate_token("a-token-of-letters")
    'a-token-of-letters'
    """
    if not re.fullmatch(rf"[A-Za-z0-9_-]{{{MIN_TOKEN_CHARS},}}", token):
        raise InputError(
            "web.short_token",
            "{name} must have at least {min_token_chars} letters, digits, - or _, got {n_token}; "
            "try `openssl rand -hex 16`",
            name=name,
            min_token_chars=MIN_TOKEN_CHARS,
            n_token=len(token),
        )
    return token


@dataclass(frozen=True)
class AllowedHosts:
    """The values of the Host header that the server accepts.

    A foreign page may let its host name resolve to this machine (DNS rebinding); the browser then
    sends that name as Host. An IP address cannot be rebound, so a server for other machines accepts
    every IP address.

    >>> AllowedHosts.of("127.0.0.1", 8000).allows("localhost:8000")
    True
    >>> AllowedHosts.of("127.0.0.1", 8000).allows("evil.example:8000")
    False
    """

    port: int
    names: frozenset[str]
    addresses: bool  # accept any IP address

    @classmethod
    def of(cls, host: str, port: int) -> "AllowedHosts":
        """The hosts of a server that listens on `host` and `port`."""
        if is_loopback(host):
            return cls(port, frozenset({*LOOPBACK, host}), addresses=False)
        names = {*LOOPBACK, host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}
        return cls(port, frozenset(names), addresses=True)

    def allows(self, header: str) -> bool:
        """Whether a Host header such as `localhost:8000` is accepted."""
        match = _HOST.fullmatch(header.lower())
        if match is None or int(match[2] or 80) != self.port:
            return False
        name = match[1].strip("[]")
        return name in self.names or (self.addresses and _is_address(name))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`.

    >>> is_loopback("localhost"), is_loopback("127.0.0.2"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return host in LOOPBACK or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return False


def open_listener(host: str, port: int, backlog: int = 128) -> socket.socket:
    """A listening socket; port 0 chooses a free one.

    Raises InputError if the socket cannot listen there.
    """
    try:
        (family, kind, protocol, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )
        with ExitStack() as on_failure:
            # asyncio sets TCP_NODELAY only where the protocol is named; without it a response in
            # two parts waits 40 ms for the delayed acknowledgement of the first one
            listener = on_failure.enter_context(socket.socket(family, kind, protocol))
            if os.name == "posix":  # elsewhere it lets other processes share the port
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(backlog)
            on_failure.pop_all()
    except (OSError, UnicodeError) as error:
        raise InputError(
            "web.port_not_usable",
            "cannot listen on {host} port {port} ({error}); choose another --port or --host",
            host=host,
            port=port,
            error=error,
        ) from error
    return listener


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
