"""The web application: errors in the shape of OpenAI's API, metrics and logs around the routes."""

import re
import secrets
from collections.abc import Sequence

from starlette.types import Message as AsgiMessage
from starlette.types import Receive, Scope, Send

from jumok.serving.logs import Log, location
from jumok.serving.metrics import Metrics
from jumok.serving.replies import error_body
from jumok.serving.service import SERVED, Served
from jumok.web.app import Access, App, Done, Route
from jumok.web.errors import RequestError
from jumok.web.requests import header

PROBES = ("/health", "/ready", "/ready/*", "/metrics")  # logged at level debug
HASH_HEADER = "x-jumok-model"
ID_HEADER = b"x-request-id"
IS_ID = re.compile(r"[\w.:/+=-]{1,128}", re.ASCII).fullmatch


class _ServingApp(App):
    """Requests have an id, which responses repeat: that of the client, or a random one."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        given = header(scope["headers"], ID_HEADER) or ""
        name = given if IS_ID(given) else secrets.token_hex(8)
        SERVED.set(Served(name))

        async def send_with_id(message: AsgiMessage) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (ID_HEADER, name.encode())]
            await send(message)

        await super().__call__(scope, receive, send_with_id)


def create_app(routes: Sequence[Route], access: Access, metrics: Metrics, log: Log) -> App:
    """The ASGI application."""

    def explain(error: Exception) -> RequestError:
        log("bug", error=type(error).__name__, at=location(error))
        return RequestError(
            "request.internal_error", "an internal error; see the server's log", status=500
        )

    def on_done(done: Done) -> None:
        served = SERVED.get()
        metrics.add(done.route, done.status, done.seconds, served.model)
        write = log.debug if done.route in PROBES else log
        write(
            "reply",
            id=served.id,
            route=done.route,
            status=done.status,
            seconds=done.seconds,
            model=served.model,
            texts=served.texts,
            hash=done.headers.get(HASH_HEADER.encode(), b"").decode("latin-1"),
        )

    return _ServingApp(
        routes,
        access,
        error_body=error_body,
        explain=explain,
        help_address="/openapi.json",
        on_done=on_done,
    )
