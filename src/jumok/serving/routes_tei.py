"""The routes of text-embeddings-inference: /predict, /embed, /similarity, /info."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response

from jumok.safe_json import parse_json
from jumok.serving.app import HASH_HEADER
from jumok.serving.limits import Limits
from jumok.serving.replies import json_reply
from jumok.serving.requests import check_text, check_texts
from jumok.serving.routes import answer, one_version
from jumok.serving.service import Service
from jumok.web.app import Route
from jumok.web.errors import invalid
from jumok.web.requests import check_keys, read_object

CLASSIFIERS = ("classification", "multi_label_classification", "regression")
IGNORED = ("truncate", "truncation_direction", "parameters")  # texts are always truncated


class TeiRoutes:
    """Endpoints that TEI's clients call; `huggingface_hub.InferenceClient` is one of them."""

    def __init__(self, service: Service, limits: Limits) -> None:
        self._service, self._limits = service, limits

    @property
    def routes(self) -> list[Route]:
        """The routes."""
        return [
            Route("POST", "/predict", self.predict),
            Route("POST", "/embed", self.embed),
            Route("POST", "/similarity", self.similarity),
            Route("GET", "/info", self.info),
        ]

    async def predict(self, request: Request) -> Response:
        """A list of label and score, the best first; for a batch a list of such lists."""
        content = await read_object(request, self._limits)
        check_keys(content, ("inputs", "raw_scores", *IGNORED))
        if content.get("raw_scores") is not None and content["raw_scores"] is not False:
            raise invalid("raw_scores must be false; scores are probabilities", "raw_scores")
        model = self._classifier()
        texts, single = _inputs(
            content.get("inputs"), model.info.get("paired", False), self._limits
        )
        answers = await answer(request, model, {"kind": "predict"}, texts, self._limits)
        one_version(answers)
        rows = [_scores(parse_json(each.payload)) for each in answers]
        return json_reply(rows[0] if single else rows, headers={HASH_HEADER: answers[0].hash})

    async def embed(self, request: Request) -> Response:
        """One list of numbers for each text."""
        content = await read_object(request, self._limits)
        check_keys(content, ("inputs", "normalize", *IGNORED))
        normalize = content.get("normalize", True)
        if not isinstance(normalize, bool):
            raise invalid("normalize must be true or false; change it", "normalize")
        inputs = content.get("inputs")
        texts = [inputs] if isinstance(inputs, str) else inputs
        texts = check_texts(texts, "inputs", self._limits)
        found = await embeddings(request, self._service, self._limits, texts, normalize)
        rows = [row.tolist() for row in found.rows]
        return json_reply(rows, headers={HASH_HEADER: found.hash})

    async def similarity(self, request: Request) -> Response:
        """The cosine of a sentence with each of several others."""
        content = await read_object(request, self._limits)
        check_keys(content, ("inputs", "parameters"))
        inputs = content.get("inputs")
        if not isinstance(inputs, dict):
            raise invalid("inputs must have source_sentence and sentences", "inputs")
        check_keys(inputs, ("source_sentence", "sentences"))
        source = check_text(inputs.get("source_sentence"), "inputs.source_sentence", self._limits)
        others = check_texts(inputs.get("sentences"), "inputs.sentences", self._limits)
        texts = [source, *others]
        found = await embeddings(request, self._service, self._limits, texts, True)
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
        found = next((m for m in models if m.info.get("task") in CLASSIFIERS), models[0])
        if found.ready and found.info["task"] not in CLASSIFIERS:
            raise invalid("/predict needs a classifier; see /v1/models")
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
    texts: list[str],
    normalize: bool,
    name: object = None,
) -> Embeddings:
    """The embedding of each text. Raises RequestError for a model without an encoder."""
    model = service.model_that("embeds", "have an encoder", name)
    message = {"kind": "embed", "normalize": normalize, "count": True}
    answers = await answer(request, model, message, texts, limits)
    one_version(answers)
    return Embeddings(
        [np.frombuffer(each.payload, np.float32) for each in answers],
        model.name,
        answers[0].hash,
        sum(each.info["tokens"] for each in answers),
    )


def _scores(output: dict[str, Any]) -> list[dict[str, Any]]:
    """The labels of an answer with their scores, the best first."""
    if "score" in output:
        return [{"score": output["score"], "label": "score"}]
    pairs = sorted(output["probabilities"].items(), key=lambda pair: -pair[1])
    return [{"score": score, "label": label} for label, score in pairs]


def _inputs(value: object, paired: bool, limits: Limits) -> tuple[list[str], bool]:
    """The texts of `inputs`, and whether it is a single one.

    A string, a pair [a, b], or a batch [[a], [b, c]] or [a, b, c] of strings.
    """
    if isinstance(value, str):
        return [check_text(value, "inputs", limits)], True
    if not isinstance(value, list) or not 1 <= len(value) <= limits.texts:
        raise invalid(f"inputs must be a string or a list of at most {limits.texts}", "inputs")
    if paired and len(value) == 2 and all(isinstance(each, str) for each in value):
        return [_joined(value, paired, limits)], True
    return [_joined(each, paired, limits) for each in value], False


def _joined(value: object, paired: bool, limits: Limits) -> str:
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list) or len(parts) != 1 + paired:
        if paired:
            raise invalid("each of inputs must have 2 texts; correct it", "inputs")
        raise invalid("each of inputs must have 1 text; correct it", "inputs")
    return "\t".join(check_text(part, "inputs", limits) for part in parts)
