"""Access rules of the page's server: known hosts, same origin, a token; headers on every response.

The server listens on the loopback address, but any page open in a browser can send requests to it.
Foreign pages are blocked in four ways: they cannot use a host name of their own (`AllowedHosts`),
their requests carry another origin, they do not know the token, which is in the URL fragment and
so is never sent, and responses cannot be read from another origin.
"""

import ipaddress
import re
import secrets
import socket
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jumok.errors import InputError
from jumok.viewer.responses import error_response

TOKEN_HEADER = "x-jumok-token"  # noqa: S105  (a header name)
MIN_TOKEN_CHARS = 16  # of a token given by the user
LOOPBACK = ("127.0.0.1", "localhost", "::1")

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
SECURITY_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]/@\s]+)(?::([0-9]{1,5}))?")


def new_token() -> str:
    """128 random bits as 22 URL-safe characters."""
    return secrets.token_urlsafe(16)


def validate_token(token: str) -> str:
    """A user's token. Raises InputError unless it is long enough and URL-safe.

    >>> validate_token("a-token-of-letters")
    'a-token-of-letters'
    """
    if not re.fullmatch(rf"[A-Za-z0-9_-]{{{MIN_TOKEN_CHARS},}}", token):
        raise InputError(
            f"--token must have at least {MIN_TOKEN_CHARS} letters, digits, - or _, got "
            f"{len(token)}; try `openssl rand -hex 16`"
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
            return cls(port, frozenset(LOOPBACK), addresses=False)
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
    """Whether only this machine can reach `host`."""
    return host in LOOPBACK


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class AccessRules:
    """The rules for requests."""

    hosts: AllowedHosts
    token: str

    def violation(self, method: str, path: str, headers: Headers) -> str | None:
        """Why a request is rejected; None if it is accepted."""
        host = headers.get("host", "")
        if not self.hosts.allows(host):
            return "unknown host name; open the address that jumok view printed"
        if method not in ("GET", "HEAD"):
            if headers.get("origin", f"http://{host}").lower() != f"http://{host}".lower():
                return "the request comes from another origin; use the page itself"
            if headers.get("sec-fetch-site", "same-origin") != "same-origin":
                return "the request comes from another site; use the page that jumok view opened"
        given = headers.get(TOKEN_HEADER, "")
        if path.startswith("/api/") and not secrets.compare_digest(
            given.encode(), self.token.encode()
        ):
            return "the token is missing or wrong; open the whole address that jumok view printed"
        return None


@dataclass(frozen=True)
class GuardedApp:
    """An application behind `AccessRules`; all responses have the `SECURITY_HEADERS`."""

    app: ASGIApp
    rules: AccessRules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI request."""
        if scope["type"] != "http":
            raise AssertionError(f"unsupported scope {scope['type']}")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        violation = self.rules.violation(scope["method"], scope["path"], Headers(scope=scope))
        app = self.app if violation is None else error_response(403, violation)
        await app(scope, receive, send_with_headers)
