"""The routes of OpenAI's API: /v1/completions with streaming, and /v1/embeddings."""

import asyncio
import base64
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from jumok.language import prefers_korean
from jumok.safe_json import parse_json
from jumok.serving.app import HASH_HEADER
from jumok.serving.fields import (
    ANYTHING,
    BOOLEAN,
    MODEL,
    Field,
    choice,
    described,
    integer,
    nullable,
    number,
    object_of,
    one_or_several,
    only,
    text_or_texts,
    texts_or_ids,
)
from jumok.serving.limits import Limits
from jumok.serving.openapi import EVENTS, JSON, ApiRoute
from jumok.serving.replies import error_body, json_bytes, json_reply
from jumok.serving.requests import deadline_seconds, decoding, stop_strings
from jumok.serving.routes import answer, one_version
from jumok.serving.routes_tei import embeddings, first_dimensions
from jumok.serving.scheduler import Answer, Item
from jumok.serving.service import ServedModel, Service, gather_answers
from jumok.web.app import Route
from jumok.web.errors import RequestError, invalid
from jumok.web.requests import header, read_object, watched

Stream = asyncio.Queue[bytes | None]


class OpenAIRoutes:
    """Endpoints that the official `openai` client calls."""

    def __init__(self, service: Service, limits: Limits) -> None:
        self._service, self._limits = service, limits
        self._embed = object_of(
            {
                "input": texts_or_ids(limits),
                "model": MODEL,
                "encoding_format": nullable(choice("float", "base64")),
                "dimensions": nullable(integer(1)),
                "user": ANYTHING,
            },
            ["input"],
        )
        self._complete = object_of(_completion_fields(limits), ["prompt"])
        self._decode = decoding(limits)

    @property
    def routes(self) -> list[Route]:
        """The routes."""
        return [
            ApiRoute(
                *("POST", "/v1/completions", self.completions),
                summary="Continuations, as OpenAI; with stream as server-sent events.",
                request=self._complete,
                media_types=[JSON, EVENTS],
            ),
            ApiRoute(
                *("POST", "/v1/embeddings", self.embeddings),
                summary="Embeddings, as OpenAI.",
                request=self._embed,
            ),
        ]

    async def embeddings(self, request: Request) -> Response:
        """Normalized embeddings as numbers, or as base64 of float32 in little-endian order.

        With `dimensions` the first ones, normalized again.
        """
        content = self._embed.check(await read_object(request, self._limits), "")
        form, dimensions = content.get("encoding_format"), content.get("dimensions")
        found = await embeddings(
            *(request, self._service, self._limits, content["input"]),
            normalize=True,
            name=content.get("model"),
        )
        data = [
            {
                "object": "embedding",
                "index": number,
                "embedding": base64.b64encode(row.tobytes()).decode()
                if form == "base64"
                else row.tolist(),
            }
            for number, row in enumerate(first_dimensions(found.rows, dimensions))
        ]
        usage = {"prompt_tokens": found.tokens, "total_tokens": found.tokens}
        body = {"object": "list", "data": data, "model": found.model, "usage": usage}
        return json_reply(body, headers={HASH_HEADER: found.hash})

    async def completions(self, request: Request) -> Response:
        """The continuation of a prompt, whole or as server-sent events."""
        content = self._complete.check(await read_object(request, self._limits), "")
        streamed, options = content.get("stream"), content.get("stream_options")
        if options is not None and not streamed:
            raise invalid(
                "request.stream_options",
                "stream_options needs stream = true; leave it out",
                "stream_options",
            )
        with_usage = (options or {}).get("include_usage", False)
        model = self._service.model_that("generates", "generate text", content.get("model"))
        prompt = content["prompt"]
        prompts = [prompt] if isinstance(prompt, str) else prompt
        message = {"kind": "predict", "decoding": self._decoding(content), "count": True}
        if not streamed:
            answers = await answer(request, model, message, prompts, self._limits)
            one_version(answers)
            reply = _completion(model, answers)
            return json_reply(reply, headers={HASH_HEADER: answers[0].hash})
        if len(prompts) != 1:
            raise invalid(
                "request.stream_several_prompts",
                "stream needs one prompt; send several requests",
                "stream",
            )
        message["kind"] = "stream"
        return await self._stream(request, model, message, prompts[0], with_usage)

    def _decoding(self, content: dict[str, Any]) -> str:
        """The settings of [decoding].

        Temperature 0 is greedy search; without `temperature` and `top_p` the recipe decides.
        """
        settings: dict[str, Any] = {}
        if (tokens := content.get("max_tokens")) is not None:
            settings["max_length"] = tokens
        top_p, temperature = content.get("top_p"), content.get("temperature")
        if top_p is not None or temperature is not None:
            heat = 1.0 if temperature is None else temperature
            share = 1.0 if top_p is None else top_p
            settings = {**settings, "sample": heat > 0, "beam": 1}
            if heat > 0:
                settings |= {"temperature": max(heat, 1e-6), "top_p": max(share, 1e-9)}
        if (seed := content.get("seed")) is not None:
            settings["seed"] = seed
        if stop := content.get("stop"):
            settings["stop"] = stop
        return str(self._decode.check(settings, "decoding"))

    async def _stream(
        self,
        request: Request,
        model: ServedModel,
        message: dict[str, Any],
        prompt: str,
        with_usage: bool,
    ) -> Response:
        seconds = deadline_seconds(request, self._limits)
        parts: Stream = asyncio.Queue()
        items = model.submit(message, [prompt], seconds, parts.put_nowait)
        items[0].done.add_done_callback(lambda _: parts.put_nowait(None))
        korean = prefers_korean(header(request.scope["headers"], b"accept-language"))
        events = _events(model, items, parts, with_usage, korean)

        async def drop() -> None:
            model.queue.cancel(items)

        with watched(request, lambda: model.queue.cancel(items)):
            version = await model.version(items[0])
        headers = {HASH_HEADER: version, "cache-control": "no-store"}
        return StreamingResponse(
            events, 200, headers, "text/event-stream", background=BackgroundTask(drop)
        )


async def _events(
    model: ServedModel,
    items: list[Item],
    parts: Stream,
    with_usage: bool,
    korean: bool,
) -> AsyncIterator[bytes]:
    """One event for each final part of the text, then the reason of its end, then the usage.

    The queue ends `parts` also for a text whose deadline has passed or whose process was lost.
    """
    start = _start(model)
    usage: dict[str, Any] = {"usage": None} if with_usage else {}

    def event(content: dict[str, Any]) -> bytes:
        return b"data: " + json_bytes({**start, **content}) + b"\n\n"

    try:
        while (part := await parts.get()) is not None:
            yield event({"choices": [_choice(part.decode(), 0, None)], **usage})
        answers = await gather_answers(model, items)
        yield event({"choices": [_last_choice(answers[0], "", 0)], **usage})
        if with_usage:
            yield event({"choices": [], "usage": _usage(answers)})
        yield b"data: [DONE]\n\n"
    except RequestError as error:
        yield b"data: " + error_body(error, korean=korean) + b"\n\n"
    finally:
        model.queue.cancel(items)


def _not_one(param: str) -> RequestError:
    return invalid(
        "request.not_one",
        "{param} must be 1; use decoding.n_best of /v1/predict",
        param,
    )


def _completion_fields(limits: Limits) -> dict[str, Field]:
    """The fields of a completion; some have their neutral values only."""
    no_penalty, one = only(0, None), only(1, None, refusal=_not_one)
    usage = nullable(object_of({"include_usage": BOOLEAN}))
    return {
        "prompt": text_or_texts(limits),
        "model": MODEL,
        "max_tokens": nullable(integer(1, limits.new_tokens)),
        "temperature": nullable(number(0, 2)),
        "top_p": nullable(number(0, 1)),
        "n": one,
        "best_of": one,
        "stream": nullable(BOOLEAN),
        "stream_options": described(
            usage,
            "Null unless stream is true.",
        ),
        "stop": nullable(one_or_several(stop_strings(limits))),
        "seed": nullable(integer(0)),
        "user": ANYTHING,
        "echo": only(False, None),
        "logprobs": only(None),
        "suffix": only("", None),
        "frequency_penalty": no_penalty,
        "presence_penalty": no_penalty,
    }


def _completion(model: ServedModel, answers: list[Answer]) -> dict[str, Any]:
    """The response of a completion that is not streamed."""
    choices = [
        _last_choice(each, parse_json(each.payload)["output"], number)
        for number, each in enumerate(answers)
    ]
    return {**_start(model), "choices": choices, "usage": _usage(answers)}


def _start(model: ServedModel) -> dict[str, Any]:
    """What all events of a completion have in common."""
    return {
        "id": f"cmpl-{uuid.uuid4().hex}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": model.name,
    }


def _choice(text: str, index: int, reason: str | None) -> dict[str, Any]:
    return {"text": text, "index": index, "logprobs": None, "finish_reason": reason}


def _last_choice(answer: Answer, text: str, index: int) -> dict[str, Any]:
    """A choice with its reason of ending; with the seed of a sample, and warnings, if any."""
    output = parse_json(answer.payload)
    more: dict[str, Any] = {key: output[key] for key in ("seed", "warnings") if key in output}
    return {**_choice(text, index, answer.info["finish_reason"]), **more}


def _usage(answers: list[Answer]) -> dict[str, int]:
    prompt_tokens = sum(each.info["tokens"] for each in answers)
    new_tokens = sum(each.info["new_tokens"] for each in answers)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": new_tokens,
        "total_tokens": prompt_tokens + new_tokens,
    }
