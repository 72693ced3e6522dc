"""The routes of jumok itself: predictions, models, limits, health, metrics, reloading."""

import asyncio
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from jumok.errors import JumokError
from jumok.serving.app import HASH_HEADER
from jumok.serving.fields import MODEL, object_of, reply_of, texts
from jumok.serving.limits import Limits
from jumok.serving.metrics import Metrics
from jumok.serving.openapi import OBJECT, STRING, TEXT, ApiRoute
from jumok.serving.replies import join_lines, json_reply
from jumok.serving.requests import deadline_seconds, decoding
from jumok.serving.scheduler import Answer, Item
from jumok.serving.service import ServedModel, Service, gather_answers
from jumok.web.app import Route, last_part
from jumok.web.errors import RequestError
from jumok.web.requests import read_object, watched

OF_A_TEXT = ("input.", "text.", "pipeline.")  # codes of errors of one text


class NativeRoutes:
    """Endpoints with jumok's own formats."""

    def __init__(
        self, service: Service, limits: Limits, metrics: Metrics, *, traces: bool = False
    ) -> None:
        self._service, self._limits, self._metrics = service, limits, metrics
        self._traces = traces
        self._predict = object_of(
            {"texts": texts(limits), "model": MODEL, "decoding": decoding(limits)}, ["texts"]
        )
        self._reload = object_of({"model": MODEL})

    @property
    def routes(self) -> list[Route]:
        """The routes."""
        return [
            ApiRoute(
                *("POST", "/v1/predict", self.predict),
                summary="The answers of jumok predict --json.",
                request=self._predict,
                reply=reply_of(
                    model=STRING, hash=STRING, answers={"type": "array", "items": OBJECT}
                ),
            ),
            ApiRoute("GET", "/v1/models", self.models, summary="The served models."),
            ApiRoute("GET", "/v1/models/*", self.one_model, summary="A model by its name."),
            ApiRoute("GET", "/v1/limits", self.limits, summary="All limits."),
            ApiRoute("GET", "/health", self.health, summary="200 while the server runs."),
            ApiRoute("GET", "/ready", self.ready, summary="200 when all models are warm."),
            ApiRoute("GET", "/ready/*", self.ready, summary="200 when the named model is warm."),
            ApiRoute(
                *("GET", "/metrics", self.metrics),
                summary="Prometheus metrics.",
                media_types=[TEXT],
            ),
            ApiRoute(
                *("POST", "/admin/reload", self.reload),
                summary="Load models again from their folders.",
                request=self._reload,
                reply={**OBJECT, "required": ["reloaded"]},
            ),
        ]

    async def predict(self, request: Request) -> Response:
        """The answers of `jumok predict --json`, byte for byte."""
        content = self._predict.check(await read_object(request, self._limits), "")
        settings = content.get("decoding", "")
        model = self._service.model(content.get("model"))
        if settings and model.ready and not model.info["generates"]:
            raise RequestError(
                "request.decoding_without_generation",
                "decoding needs a model that generates text; leave it out",
                "decoding",
            )
        message = {"kind": "predict", "decoding": settings}
        answers = await answer(request, model, message, content["texts"], self._limits, "texts")
        one_version(answers)
        body = join_lines(
            {"model": model.name, "hash": answers[0].hash},
            "answers",
            [each.payload for each in answers],
        )
        return Response(body, 200, {HASH_HEADER: answers[0].hash}, media_type="application/json")

    async def models(self, request: Request) -> Response:
        """The served models, in OpenAI's form with more keys."""
        data = list(map(_described, self._service.models.values()))
        return json_reply({"object": "list", "data": data, "traces": self._traces})

    async def one_model(self, request: Request) -> Response:
        """One of them by its name."""
        return json_reply(_described(self._service.model(last_part(request))))

    async def limits(self, request: Request) -> Response:
        """All limits."""
        return json_reply(self._limits.as_json())

    async def health(self, request: Request) -> Response:
        """200 while the server runs."""
        reasons = {m.name: m.reason for m in self._service.models.values() if not m.ready}
        return json_reply({"status": "ok", "not_ready": reasons})

    async def ready(self, request: Request) -> Response:
        """200 when all models, or the named one, are warm and the server is not ending."""
        ready = self._service.ready
        if request.scope["path"] != "/ready":
            ready = self._service.model(last_part(request)).ready and not self._service.draining
        if ready:
            return json_reply({"status": "ready"})
        reason = "the server is shutting down" if self._service.draining else "a model is loading"
        raise RequestError(
            "request.unavailable", "{reason}; try again", status=503, retry_after=1, reason=reason
        )

    async def metrics(self, request: Request) -> Response:
        """Prometheus metrics."""
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4")

    async def reload(self, request: Request) -> Response:
        """Load models again from their folders."""
        content = self._reload.check(await read_object(request, self._limits), "")
        try:
            found = await asyncio.shield(self._service.reload(content.get("model")))
        except JumokError as error:
            raise RequestError(
                "request.reload_failed",
                "the running version stays: {error}",
                status=409,
                error=str(error)[:300],
            ) from error
        return json_reply({"reloaded": found})


def _described(model: ServedModel) -> dict[str, Any]:
    keys = ("task", "labels", "paired", "generates", "chats", "embeds", "max_length", "precision")
    return {
        "id": model.name,
        "object": "model",
        "created": 0,
        "owned_by": "jumok",
        "hash": model.hash,
        "ready": model.ready,
        **{key: model.info[key] for key in keys if key in model.info},
    }


async def answer(
    request: Request,
    model: ServedModel,
    message: dict[str, Any],
    inputs: list[str],
    limits: Limits,
    param: str,
) -> list[Answer]:
    """The answers to all texts of a request, dropped if the client leaves.

    If a reload happened between them, those of the former version are computed once more. `param`
    is the parameter with the texts, which an error names with the number of its text.
    """
    seconds = deadline_seconds(request, limits)
    deadline = time.monotonic() + seconds

    async def compute(items: list[Item]) -> list[Answer]:
        try:
            with watched(request, lambda: model.cancel(items)):  # ends `gather_answers`
                return await gather_answers(model, items)
        except RequestError as error:
            if error.param is None and error.message.code.startswith(OF_A_TEXT):
                failed = next(n for n, item in enumerate(items) if item.done.exception() is error)
                error.param = param if len(inputs) == 1 else f"{param}[{failed}]"
            raise

    answers = await compute(model.submit(message, inputs, seconds))
    if len({each.hash for each in answers}) > 1:
        former = [number for number, each in enumerate(answers) if each.hash != model.hash]
        rest = [inputs[number] for number in former]
        seconds = max(deadline - time.monotonic(), 0.0)
        again = await compute(model.submit(message, rest, seconds, accepted=True))
        for number, each in zip(former, again, strict=True):
            answers[number] = each
    return answers


def one_version(answers: list[Answer]) -> None:
    """Raise RequestError when several reloads happened between the texts of one request."""
    if len({each.hash for each in answers}) > 1:
        raise RequestError(
            "request.reloaded",
            "the model was reloaded meanwhile; try again",
            status=503,
            retry_after=1,
        )
