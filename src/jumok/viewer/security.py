"""Access rules of the page's server: known hosts, same origin, a token; headers on every response.

The server listens on the loopback address, but any page open in a browser can send requests to it.
Foreign pages are blocked in four ways: they cannot use a host name of their own (`AllowedHosts`),
their requests carry another origin, they do not know the token, which is in the URL fragment and
so is never sent, and responses cannot be read from another origin.
"""

import secrets
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jumok.viewer.responses import error_response
from jumok.web_access import AllowedHosts

TOKEN_HEADER = "x-jumok-token"  # noqa: S105  (a header name)

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

        headers = Headers(scope=scope)
        violation = self.rules.violation(scope["method"], scope["path"], headers)
        app = self.app if violation is None else error_response(403, violation, headers)
        await app(scope, receive, send_with_headers)
