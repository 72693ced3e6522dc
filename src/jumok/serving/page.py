"""The page at /: three static files without data, which need no token."""

from functools import partial
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from jumok.web.app import Route

FILES = {
    "/": ("index.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)


def page_routes() -> list[Route]:
    """The routes of the page."""
    folder = files("jumok.serving") / "static"

    async def send(content: bytes, media_type: str, request: Request) -> Response:
        return Response(
            content, 200, {"content-security-policy": POLICY}, f"{media_type}; charset=utf-8"
        )

    return [
        Route("GET", path, partial(send, (folder / name).read_bytes(), media_type), public=True)
        for path, (name, media_type) in FILES.items()
    ]
