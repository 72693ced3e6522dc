"""The routes of text-embeddings-inference: /, /predict, /embed, /similarity, /info."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response

from jumok.safe_json import parse_json
from jumok.serving.app import HASH_HEADER
from jumok.serving.fields import (
    BOOLEAN,
    any_of,
    batch,
    integer,
    nullable,
    object_of,
    only,
    text,
    text_or_texts,
    texts,
)
from jumok.serving.limits import Limits
from jumok.serving.openapi import ApiRoute
from jumok.serving.replies import json_reply
from jumok.serving.requests import as_payloads
from jumok.serving.routes import answer, one_version
from jumok.serving.service import Service
from jumok.web.app import Route
from jumok.web.errors import RequestError, invalid
from jumok.web.requests import read_object

# What the scores of a task are, by its name.
ACTIVATIONS = {"classification": "softmax", "multi_label": "sigmoid"}
NUMBERS = {"type": "array", "items": {"type": "number"}}


class TeiRoutes:
    """Endpoints that TEI's clients call; `huggingface_hub.InferenceClient` is one of them."""

    def __init__(self, service: Service, limits: Limits) -> None:
        self._service, self._limits = service, limits
        no_scores = only(False, None, refusal=_raw_scores)
        truncation = {
            "truncate": only(True, None, refusal=_always_truncated),
            "truncation_direction": only("right", "Right", None, refusal=_always_truncated),
        }
        classified = {
            "function_to_apply": only("softmax", "sigmoid", None, refusal=_other_activation),
            "top_k": nullable(integer(1)),
            **truncation,
        }
        self._predict = object_of(
            {
                "inputs": batch(limits),
                "raw_scores": no_scores,
                "parameters": nullable(object_of(classified)),
                **truncation,
            },
            ["inputs"],
        )
        embedded = {
            "normalize": nullable(BOOLEAN),
            "dimensions": nullable(integer(1)),
            **truncation,
        }
        self._embed = object_of(
            {
                "inputs": text_or_texts(limits),
                "parameters": nullable(object_of(embedded)),
                **embedded,
            },
            ["inputs"],
        )
        compared = {"source_sentence": text(limits), "sentences": texts(limits)}
        inputs = object_of(compared, list(compared), refusal=_not_compared)
        self._similarity = object_of(
            {"inputs": inputs, "parameters": nullable(object_of({}))}, ["inputs"]
        )

    @property
    def routes(self) -> list[Route]:
        """The routes."""
        return [
            ApiRoute(
                *("POST", "/predict", self.predict),
                summary="Labels and scores, as text-embeddings-inference.",
                request=self._predict,
                reply={"type": "array"},
            ),
            ApiRoute(
                *("POST", "/embed", self.embed),
                summary="Embeddings, as text-embeddings-inference.",
                request=self._embed,
                reply={"type": "array", "items": NUMBERS},
            ),
            ApiRoute(
                *("POST", "/similarity", self.similarity),
                summary="Cosines of a sentence with others, as text-embeddings-inference.",
                request=self._similarity,
                reply=NUMBERS,
            ),
            ApiRoute(
                *("POST", "/", self.root),
                summary="/predict of a classifier, else /embed; /similarity of its inputs.",
                request=any_of(self._predict, self._embed, self._similarity),
                reply={"type": "array"},
            ),
            ApiRoute("GET", "/info", self.info, summary="The first model."),
        ]

    async def root(self, request: Request) -> Response:
        """What text-embeddings-inference computes at its root: what the first model is for."""
        content = await read_object(request, self._limits)
        model = self._service.model()
        if not model.info:
            raise model.unavailable()
        if isinstance(content.get("inputs"), dict):
            return await self._answer_similarity(request, content)
        if model.info["classifies"]:
            return await self._answer_predict(request, content)
        return await self._answer_embed(request, content)

    async def predict(self, request: Request) -> Response:
        """A list of label and score, the best first; for a batch a list of such lists."""
        return await self._answer_predict(request, await read_object(request, self._limits))

    async def embed(self, request: Request) -> Response:
        """One list of numbers for each text."""
        return await self._answer_embed(request, await read_object(request, self._limits))

    async def similarity(self, request: Request) -> Response:
        """The cosine of a sentence with each of several others."""
        return await self._answer_similarity(request, await read_object(request, self._limits))

    async def _answer_predict(self, request: Request, given: dict[str, Any]) -> Response:
        content = self._predict.check(given, "")
        parameters = content.get("parameters") or {}
        model = self._classifier()
        activation = parameters.get("function_to_apply")
        if activation not in (None, ACTIVATIONS.get(str(model.info.get("task")))):
            raise _other_activation("parameters.function_to_apply")
        found, single = _inputs(content["inputs"], model.info.get("paired", False))
        answers = await answer(request, model, {"kind": "predict"}, found, self._limits)
        one_version(answers)
        top = parameters.get("top_k")  # None: all
        rows = [_scores(parse_json(each.payload))[:top] for each in answers]
        return json_reply(rows[0] if single else rows, headers={HASH_HEADER: answers[0].hash})

    async def _answer_embed(self, request: Request, given: dict[str, Any]) -> Response:
        content = self._embed.check(given, "")
        parameters = content.get("parameters") or {}
        normalize = False not in [each.get("normalize") for each in (content, parameters)]
        found = await embeddings(
            *(request, self._service, self._limits),
            *(content["inputs"], normalize),
        )
        n = content.get("dimensions") or parameters.get("dimensions")
        rows = [row.tolist() for row in first_dimensions(found.rows, n, normalize)]
        return json_reply(rows, headers={HASH_HEADER: found.hash})

    async def _answer_similarity(self, request: Request, given: dict[str, Any]) -> Response:
        inputs = self._similarity.check(given, "")["inputs"]
        compared = [inputs["source_sentence"], *inputs["sentences"]]
        found = await embeddings(request, self._service, self._limits, compared, True)
        first, *rest = found.rows
        scores = [math.fsum((first * row).tolist()) for row in rest]
        return json_reply(scores, headers={HASH_HEADER: found.hash})

    async def info(self, request: Request) -> Response:
        """The first model and its limits."""
        model = self._service.model()
        return json_reply(
            {
                "model_id": model.name,
                "model_sha": model.hash,
                "max_input_length": model.info.get("max_length"),
                "max_client_batch_size": self._limits.texts,
            }
        )

    def _classifier(self) -> Any:
        models = list(self._service.models.values())
        found = next((m for m in models if m.info.get("classifies")), models[0])
        if found.ready and not found.info["classifies"]:
            raise invalid(
                "request.needs_classifier",
                "/predict needs a classifier; see /v1/models",
            )
        return found


@dataclass(frozen=True)
class Embeddings:
    """The embeddings of texts as float32 arrays, the model that computed them, the tokens."""

    rows: list[NDArray[np.float32]]
    model: str
    hash: str
    tokens: int


async def embeddings(
    request: Request,
    service: Service,
    limits: Limits,
    inputs: str | list[str] | list[list[int]],
    normalize: bool,
    name: object = None,
) -> Embeddings:
    """The embedding of each text, or of the token ids of each. Raises RequestError.

    The model must have an encoder.
    """
    model = service.model_that("embeds", "have an encoder", name)
    message = {"kind": "embed", "normalize": normalize, "count": True}
    several, given = as_payloads([inputs] if isinstance(inputs, str) else inputs)
    message |= given
    answers = await answer(request, model, message, several, limits)
    one_version(answers)
    return Embeddings(
        [np.frombuffer(each.payload, np.float32) for each in answers],
        model.name,
        answers[0].hash,
        sum(each.info["tokens"] for each in answers),
    )


def first_dimensions(
    rows: Sequence[NDArray[np.float32]], n: int | None, normalize: bool = True
) -> Sequence[NDArray[np.float32]]:
    """The first `n` numbers of each vector, divided by their length; None: all.

    >>> first_dimensions([np.array([3, 4, 5], np.float32)], 2)
    [array([0.6, 0.8], dtype=float32)]
    """
    if n is None or n == len(rows[0]):
        return rows
    if n > len(rows[0]):
        raise invalid(
            "request.too_many_dimensions",
            "{param} must be at most {high}, those of the model; reduce it",
            "dimensions",
            high=len(rows[0]),
        )
    first = [row[:n] for row in rows]
    return [row / max(float(np.linalg.norm(row)), 1e-12) for row in first] if normalize else first


def _raw_scores(param: str) -> RequestError:
    return invalid(
        "request.raw_scores",
        "{param} must be false; scores are probabilities",
        param,
    )


def _always_truncated(param: str) -> RequestError:
    return invalid(
        "request.always_truncated",
        "{param} must be left out; long texts are always truncated at their end",
        param,
    )


def _other_activation(param: str) -> RequestError:
    return invalid(
        "request.function_to_apply",
        "{param} must be that of the model's scores (softmax for one label, sigmoid for several); "
        "leave it out",
        param,
    )


def _not_compared(param: str) -> RequestError:
    return invalid(
        "request.source_sentence",
        "{param} must have source_sentence and sentences",
        param,
    )


def _scores(output: dict[str, Any]) -> list[dict[str, Any]]:
    """The labels of an answer with their scores, the best first."""
    if "score" in output:
        return [{"score": output["score"], "label": "score"}]
    pairs = sorted(output["probabilities"].items(), key=lambda pair: -pair[1])
    return [{"score": score, "label": label} for label, score in pairs]


def _inputs(value: str | list[Any], paired: bool) -> tuple[list[str], bool]:
    """The texts of `inputs`, and whether it is a single one.

    A string, a pair [a, b], or a batch [[a], [b, c]] or [a, b, c] of strings.
    """
    if isinstance(value, str):
        return [value], True
    if paired and len(value) == 2 and all(isinstance(each, str) for each in value):
        return [_joined(value, paired)], True
    return [_joined(each, paired) for each in value], False


def _joined(value: str | list[str], paired: bool) -> str:
    parts = [value] if isinstance(value, str) else value
    if len(parts) != 1 + paired:
        if paired:
            raise invalid(
                "request.not_two_texts",
                "each of inputs must have 2 texts; correct it",
                "inputs",
            )
        raise invalid(
            "request.not_one_text",
            "each of inputs must have 1 text; correct it",
            "inputs",
        )
    return "\t".join(parts)
