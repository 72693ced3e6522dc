"""The routes of text-embeddings-inference: /, /predict, /embed, /rerank, /similarity, /info."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response

from jumok.errors import or_list
from jumok.safe_json import parse_json
from jumok.serving.app import HASH_HEADER
from jumok.serving.fields import (
    BOOLEAN,
    MODEL,
    any_of,
    batch,
    integer,
    nullable,
    object_of,
    only,
    string,
    text,
    text_or_texts,
    texts,
)
from jumok.serving.limits import Limits
from jumok.serving.openapi import OBJECT, ApiRoute
from jumok.serving.replies import json_reply
from jumok.serving.requests import as_payloads
from jumok.serving.routes import answer, one_version
from jumok.serving.service import ServedModel, Service
from jumok.web.app import Route
from jumok.web.errors import RequestError
from jumok.web.requests import read_object

# What the scores of a task are, by its name.
ACTIVATIONS = {"classification": "softmax", "multi_label": "sigmoid"}
MAX_PROMPT_NAME = 100  # characters
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
                "model": MODEL,
                **truncation,
            },
            ["inputs"],
        )
        prompt = {"prompt_name": nullable(string(MAX_PROMPT_NAME))}
        embedded = {
            "normalize": nullable(BOOLEAN),
            "dimensions": nullable(integer(1)),
            **prompt,
            **truncation,
        }
        self._embed = object_of(
            {
                "inputs": text_or_texts(limits),
                "parameters": nullable(object_of(embedded)),
                "model": MODEL,
                **embedded,
            },
            ["inputs"],
        )
        compared = {"source_sentence": text(limits), "sentences": texts(limits)}
        inputs = object_of(compared, list(compared), refusal=_not_compared)
        options = nullable(object_of(prompt | truncation))
        self._similarity = object_of(
            {"inputs": inputs, "parameters": options, "model": MODEL}, ["inputs"]
        )
        self._rerank = object_of(
            {
                "query": text(limits),
                "texts": texts(limits),
                "raw_scores": nullable(BOOLEAN),
                "return_text": nullable(BOOLEAN),
                "model": MODEL,
                **truncation,
                "truncate": nullable(BOOLEAN),
            },
            ["query", "texts"],
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
                *("POST", "/rerank", self.rerank),
                summary="The texts by their scores with a query, as text-embeddings-inference.",
                request=self._rerank,
                reply={"type": "array", "items": OBJECT},
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
        """What text-embeddings-inference computes at its root: what the model is for."""
        content = await read_object(request, self._limits)
        model = self._service.model(content.get("model"))
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
        model = self._classifier(content.get("model"))
        activation = parameters.get("function_to_apply")
        if activation not in (None, ACTIVATIONS.get(str(model.info.get("task")))):
            raise _other_activation("parameters.function_to_apply")
        found, single = _inputs(content["inputs"], _lengths(model.info))
        answers = await answer(request, model, {"kind": "predict"}, found, self._limits, "inputs")
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
            param="inputs",
            name=content.get("model"),
            prompt_name=content.get("prompt_name") or parameters.get("prompt_name") or "",
        )
        n = content.get("dimensions") or parameters.get("dimensions")
        rows = [row.tolist() for row in first_dimensions(found.rows, n, normalize)]
        return json_reply(rows, headers={HASH_HEADER: found.hash})

    async def _answer_similarity(self, request: Request, given: dict[str, Any]) -> Response:
        content = self._similarity.check(given, "")
        inputs, parameters = content["inputs"], content.get("parameters") or {}
        found = await embeddings(
            *(request, self._service, self._limits),
            *([inputs["source_sentence"], *inputs["sentences"]], True),
            param="inputs",
            name=content.get("model"),
            prompt_name=parameters.get("prompt_name") or "",
        )
        first, *rest = found.rows
        scores = [math.fsum((first * row).tolist()) for row in rest]
        return json_reply(scores, headers={HASH_HEADER: found.hash})

    async def rerank(self, request: Request) -> Response:
        """The texts by their scores with the query, the best first.

        The score of an imported model is the sigmoid of its output, or with `raw_scores` the
        output; that of a model of jumok is on the scale of its data. A TAB is read as a space. With
        `truncate` false a pair that is too long is an error.
        """
        content = self._rerank.check(await read_object(request, self._limits), "")
        model = self._reranker(content.get("model"))
        query, *texts = (each.replace("\t", " ") for each in (content["query"], *content["texts"]))
        pairs = [f"{query}\t{each}" for each in texts]
        answers = await answer(request, model, {"kind": "predict"}, pairs, self._limits, "texts")
        one_version(answers)
        raw = content.get("raw_scores") or not model.info["imported"]
        outputs = [parse_json(each.payload) for each in answers]
        if content.get("truncate") is False:
            _check_read(outputs)
        scores = [float(each["score"]) for each in outputs]
        found = [
            {"index": n, "score": score if raw else _sigmoid(score)}
            | ({"text": content["texts"][n]} if content.get("return_text") else {})
            for n, score in sorted(enumerate(scores), key=lambda each: -each[1])
        ]
        return json_reply(found, headers={HASH_HEADER: answers[0].hash})

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

    def _classifier(self, name: object) -> ServedModel:
        models = self._candidates(name)
        found = next((m for m in models if m.info.get("classifies")), models[0])
        if found.ready and not found.info["classifies"]:
            raise RequestError(
                "request.needs_classifier", "/predict needs a classifier; see /v1/models"
            )
        return found

    def _candidates(self, name: object) -> list[ServedModel]:
        """All models, or the named one. Raises RequestError 404."""
        return list(self._service.models.values()) if name is None else [self._service.model(name)]

    def _reranker(self, name: object) -> ServedModel:
        models = self._candidates(name)
        found = next((m for m in models if _reranks(m.info)), models[0])
        if found.ready and not _reranks(found.info):
            raise RequestError(
                "request.needs_reranker",
                "/rerank needs a model with one score for a pair of texts; use /similarity for the "
                "vectors of an encoder",
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
    *,
    param: str,
    name: object = None,
    prompt_name: str = "",
) -> Embeddings:
    """The embedding of each text, or of the token ids of each. Raises RequestError.

    The model must have an encoder, and a prompt of this name. Without a name it is the first that
    was trained for vectors, or else the first encoder.
    """
    model = service.model_that("embeds", "have an encoder", name, preferred="vectors")
    message = {"kind": "embed", "normalize": normalize, "count": True, "prompt_name": prompt_name}
    several, given = as_payloads([inputs] if isinstance(inputs, str) else inputs)
    message |= given
    answers = await answer(request, model, message, several, limits, param)
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
        raise RequestError(
            "request.too_many_dimensions",
            "{param} must be at most {high}, those of the model; reduce it",
            "dimensions",
            high=len(rows[0]),
        )
    first = [row[:n] for row in rows]
    return [row / max(float(np.linalg.norm(row)), 1e-12) for row in first] if normalize else first


def _raw_scores(param: str) -> RequestError:
    return RequestError(
        "request.raw_scores", "{param} must be false; scores are probabilities", param
    )


def _always_truncated(param: str) -> RequestError:
    return RequestError(
        "request.always_truncated",
        "{param} must be left out; long texts are always truncated at their end",
        param,
    )


def _check_read(outputs: Sequence[dict[str, Any]]) -> None:
    """Raise RequestError for the first pair of which tokens were not read."""
    for n, output in enumerate(outputs):
        if any(each["code"] == "truncated" for each in output.get("warnings", ())):
            raise RequestError(
                "request.pair_too_long",
                "{param} and the query must fit into the model with truncate false; leave it out",
                f"texts[{n}]",
            )


def _other_activation(param: str) -> RequestError:
    return RequestError(
        "request.function_to_apply",
        "{param} must be that of the model's scores (softmax for one label, sigmoid for several); "
        "leave it out",
        param,
    )


def _not_compared(param: str) -> RequestError:
    return RequestError(
        "request.source_sentence", "{param} must have source_sentence and sentences", param
    )


def _scores(output: dict[str, Any]) -> list[dict[str, Any]]:
    """The labels of an answer with their scores, the best first."""
    if "score" in output:
        return [{"score": output["score"], "label": "score"}]
    pairs = sorted(output["probabilities"].items(), key=lambda pair: -pair[1])
    return [{"score": score, "label": label} for label, score in pairs]


def _reranks(info: dict[str, Any]) -> bool:
    """Whether a model has one score for a pair of texts."""
    return bool(info.get("scores") and (info["paired"] or info["optional_pairs"]))


def _sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)) without an overflow.

    >>> _sigmoid(0.0), _sigmoid(-1e4)
    (0.5, 0.0)
    """
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _lengths(info: dict[str, Any]) -> tuple[int, ...]:
    """How many texts a model reads at once."""
    if info.get("optional_pairs"):
        return 1, 2
    return (2,) if info.get("paired") else (1,)


def _inputs(value: str | list[Any], lengths: tuple[int, ...]) -> tuple[list[str], bool]:
    r"""The texts of `inputs`, and whether it is a single one.

    A string, a pair [a, b], or a batch [[a], [b, c]] or [a, b, c] of strings. `lengths` are the
    numbers of texts that the model reads: one, two, or either.

    >>> _inputs(["a", "b"], (1,)), _inputs(["a", "b"], (1, 2)), _inputs([["a", "b"], "c"], (1, 2))
    ((['a', 'b'], False), (['a\tb'], True), (['a\tb', 'c'], False))
    """
    if isinstance(value, str):
        return [_joined(value, lengths, "inputs")], True
    if 2 in lengths and len(value) == 2 and all(isinstance(each, str) for each in value):
        return [_joined(value, lengths, "inputs")], True
    return [_joined(each, lengths, f"inputs[{n}]") for n, each in enumerate(value)], False


def _joined(value: str | list[str], lengths: tuple[int, ...], param: str) -> str:
    """One text, or two separated by a TAB; a string with a TAB is two texts already."""
    parts = [value] if isinstance(value, str) else value
    if len(parts) == 1 and (1 in lengths or (isinstance(value, str) and "\t" in value)):
        return parts[0]
    if len(parts) != 2 or 2 not in lengths:
        raise RequestError(
            "request.number_of_texts",
            "the number of texts of {param} must be {n}; correct it",
            param,
            n=or_list(lengths),
        )
    return _pair(parts[0], parts[1], param)


def _pair(first: str, second: str, param: str) -> str:
    if "\t" in first or "\t" in second:
        raise RequestError(
            "request.tab_in_pair",
            "{param} must have no TAB in a text of a pair; replace it by a space",
            param,
        )
    return f"{first}\t{second}"
