"""The routes of jumok itself: predictions, models, limits, health, metrics, reloading."""

import asyncio
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from jumok.errors import JumokError
from jumok.serving.app import HASH_HEADER
from jumok.serving.limits import Limits
from jumok.serving.metrics import Metrics
from jumok.serving.replies import join_lines, json_reply
from jumok.serving.requests import check_decoding, check_texts, deadline_seconds
from jumok.serving.scheduler import Answer, Item
from jumok.serving.service import ServedModel, Service, gather_answers
from jumok.web.app import Route
from jumok.web.errors import RequestError, invalid
from jumok.web.requests import check_keys, read_object, watched


class NativeRoutes:
    """Endpoints with jumok's own formats."""

    def __init__(
        self, service: Service, limits: Limits, metrics: Metrics, *, traces: bool = False
    ) -> None:
        self._service, self._limits, self._metrics = service, limits, metrics
        self._traces = traces

    @property
    def routes(self) -> list[Route]:
        """The routes."""
        return [
            Route("POST", "/v1/predict", self.predict),
            Route("GET", "/v1/models", self.models),
            Route("GET", "/v1/limits", self.limits),
            Route("GET", "/health", self.health),
            Route("GET", "/ready", self.ready),
            Route("GET", "/metrics", self.metrics),
            Route("POST", "/admin/reload", self.reload),
        ]

    async def predict(self, request: Request) -> Response:
        """The answers of `jumok predict --json`, byte for byte."""
        content = await read_object(request, self._limits)
        check_keys(content, ("texts", "model", "decoding"))
        texts = check_texts(content.get("texts"), "texts", self._limits)
        decoding = check_decoding(content.get("decoding"), self._limits)
        model = self._service.model(content.get("model"))
        if decoding and model.ready and not model.info["generates"]:
            raise invalid("decoding needs a model that generates text; leave it out", "decoding")
        message = {"kind": "predict", "decoding": decoding}
        answers = await answer(request, model, message, texts, self._limits)
        one_version(answers)
        body = join_lines(
            {"model": model.name, "hash": answers[0].hash},
            "answers",
            [each.payload for each in answers],
        )
        return Response(body, 200, {HASH_HEADER: answers[0].hash}, media_type="application/json")

    async def models(self, request: Request) -> Response:
        """The served models, in OpenAI's form with more keys."""
        keys = ("task", "labels", "paired", "generates", "embeds", "max_length")
        data = [
            {
                "id": model.name,
                "object": "model",
                "created": 0,
                "owned_by": "jumok",
                "hash": model.hash,
                "ready": model.ready,
                **{key: model.info[key] for key in keys if key in model.info},
            }
            for model in self._service.models.values()
        ]
        return json_reply({"object": "list", "data": data, "traces": self._traces})

    async def limits(self, request: Request) -> Response:
        """All limits."""
        return json_reply(self._limits.as_json())

    async def health(self, request: Request) -> Response:
        """200 while the server runs."""
        reasons = {m.name: m.reason for m in self._service.models.values() if not m.ready}
        return json_reply({"status": "ok", "not_ready": reasons})

    async def ready(self, request: Request) -> Response:
        """200 when all models are warm and the server is not ending."""
        if self._service.ready:
            return json_reply({"status": "ready"})
        reason = "the server is shutting down" if self._service.draining else "a model is loading"
        raise RequestError(503, "server_error", f"{reason}; try again", retry_after=1)

    async def metrics(self, request: Request) -> Response:
        """Prometheus metrics."""
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4")

    async def reload(self, request: Request) -> Response:
        """Load models again from their folders."""
        content = await read_object(request, self._limits)
        check_keys(content, ("model",))
        try:
            found = await asyncio.shield(self._service.reload(content.get("model")))
        except JumokError as error:
            raise RequestError(
                409, "reload_error", f"the running version stays: {str(error)[:300]}"
            ) from error
        return json_reply({"reloaded": found})


async def answer(
    request: Request,
    model: ServedModel,
    message: dict[str, Any],
    texts: list[str],
    limits: Limits,
) -> list[Answer]:
    """The answers to all texts of a request, dropped if the client leaves.

    If a reload happened between them, those of the former version are computed once more.
    """
    seconds = deadline_seconds(request, limits)
    deadline = time.monotonic() + seconds

    async def compute(items: list[Item]) -> list[Answer]:
        with watched(request, lambda: model.queue.cancel(items)):  # ends `gather_answers`
            return await gather_answers(model, items)

    answers = await compute(model.submit(message, texts, seconds))
    if len({each.hash for each in answers}) > 1:
        former = [number for number, each in enumerate(answers) if each.hash != model.hash]
        rest = [texts[number] for number in former]
        seconds = max(deadline - time.monotonic(), 0.0)
        again = await compute(model.submit(message, rest, seconds, accepted=True))
        for number, each in zip(former, again, strict=True):
            answers[number] = each
    return answers


def one_version(answers: list[Answer]) -> None:
    """Raise RequestError when several reloads happened between the texts of one request."""
    if len({each.hash for each in answers}) > 1:
        raise RequestError(
            503, "server_error", "the model was reloaded meanwhile; try again", retry_after=1
        )
