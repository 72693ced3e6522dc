"""The web application: errors in the shape of OpenAI's API, metrics and logs around the routes."""

from collections.abc import Sequence

from jumok.errors import Message
from jumok.serving.logs import Log, location
from jumok.serving.metrics import Metrics
from jumok.serving.replies import error_body
from jumok.web.app import Access, App, Done, Route
from jumok.web.errors import RequestError

QUIET = ("/health", "/ready", "/metrics")  # their successes are not logged
HASH_HEADER = "x-jumok-model"


def create_app(routes: Sequence[Route], access: Access, metrics: Metrics, log: Log) -> App:
    """The ASGI application."""

    def explain(error: Exception) -> RequestError:
        log("bug", error=type(error).__name__, at=location(error))
        return RequestError(
            500,
            "server_error",
            Message(
                "request.internal_error",
                "an internal error; see the server's log",
            ),
        )

    def on_done(done: Done) -> None:
        metrics.add(done.route, done.status, done.seconds)
        if done.route not in QUIET or done.status >= 400:
            version = done.headers.get(HASH_HEADER.encode(), b"").decode("latin-1")
            log(
                "reply",
                route=done.route,
                status=done.status,
                seconds=done.seconds,
                hash=version,
            )

    return App(
        routes,
        access,
        error_body=error_body,
        explain=explain,
        help_address="/openapi.json",
        on_done=on_done,
    )
