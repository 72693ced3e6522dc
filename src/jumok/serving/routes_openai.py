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
from jumok.serving.limits import Limits
from jumok.serving.replies import error_body, json_bytes, json_reply
from jumok.serving.requests import (
    check_choice,
    check_decoding,
    check_integer,
    check_number,
    check_stop,
    check_texts,
    deadline_seconds,
)
from jumok.serving.routes import answer, one_version
from jumok.serving.routes_tei import embeddings
from jumok.serving.scheduler import Answer, Item
from jumok.serving.service import ServedModel, Service, gather_answers
from jumok.web.app import Route
from jumok.web.errors import RequestError, invalid
from jumok.web.requests import check_keys, header, read_object, watched

COMPLETION_KEYS = (
    *("model", "prompt", "max_tokens", "temperature", "top_p", "n", "stream", "stream_options"),
    *("stop", "seed", "user", "echo", "logprobs", "best_of", "suffix"),
    *("frequency_penalty", "presence_penalty"),
)
NEUTRAL = {  # keys that are accepted with these values only
    "echo": (False, None),
    "logprobs": (None,),
    "suffix": (None, ""),
    "frequency_penalty": (0, None),
    "presence_penalty": (0, None),
}
Stream = asyncio.Queue[bytes | None]


class OpenAIRoutes:
    """Endpoints that the official `openai` client calls."""

    def __init__(self, service: Service, limits: Limits) -> None:
        self._service, self._limits = service, limits

    @property
    def routes(self) -> list[Route]:
        """The routes."""
        return [
            Route("POST", "/v1/completions", self.completions),
            Route("POST", "/v1/embeddings", self.embeddings),
        ]

    async def embeddings(self, request: Request) -> Response:
        """Normalized embeddings as numbers, or as base64 of float32 in little-endian order."""
        content = await read_object(request, self._limits)
        check_keys(content, ("model", "input", "encoding_format", "user"))
        given = content.get("input")
        texts = check_texts([given] if isinstance(given, str) else given, "input", self._limits)
        form = check_choice(
            content.get("encoding_format", "float"), "encoding_format", ("float", "base64")
        )
        found = await embeddings(
            request, self._service, self._limits, texts, normalize=True, name=content.get("model")
        )
        data = [
            {
                "object": "embedding",
                "index": number,
                "embedding": base64.b64encode(row.tobytes()).decode()
                if form == "base64"
                else row.tolist(),
            }
            for number, row in enumerate(found.rows)
        ]
        usage = {"prompt_tokens": found.tokens, "total_tokens": found.tokens}
        body = {"object": "list", "data": data, "model": found.model, "usage": usage}
        return json_reply(body, headers={HASH_HEADER: found.hash})

    async def completions(self, request: Request) -> Response:
        """The continuation of a prompt, whole or as server-sent events."""
        content = await read_object(request, self._limits)
        check_keys(content, COMPLETION_KEYS)
        for key, allowed in NEUTRAL.items():
            if content.get(key) not in allowed:
                raise invalid(f"{key} is not supported; leave it out", key)
        model = self._service.model_that("generates", "generate text", content.get("model"))
        prompt = content.get("prompt")
        prompts = [prompt] if isinstance(prompt, str) else prompt
        prompts = check_texts(prompts, "prompt", self._limits)
        for key in ("n", "best_of"):
            if (value := content.get(key)) is not None and (type(value) is not int or value != 1):
                raise invalid(f"{key} must be 1; use decoding.n_best of /v1/predict", key)
        decoding = self._decoding(content)
        streamed = content.get("stream", False)
        if not isinstance(streamed, bool | None):
            raise invalid("stream must be true or false; change it", "stream")
        with_usage = _includes_usage(content.get("stream_options"), bool(streamed))
        message = {"kind": "predict", "decoding": decoding, "count": True}
        max_tokens = int(content.get("max_tokens") or 0)
        if not streamed:
            answers = await answer(request, model, message, prompts, self._limits)
            one_version(answers)
            reply = _completion(model, answers, max_tokens)
            return json_reply(reply, headers={HASH_HEADER: answers[0].hash})
        if len(prompts) != 1:
            raise invalid("stream needs one prompt; send several requests", "stream")
        message["kind"] = "stream"
        return await self._stream(request, model, message, prompts[0], max_tokens, with_usage)

    def _decoding(self, content: dict[str, Any]) -> str:
        """The settings of [decoding].

        Temperature 0 is greedy search; without `temperature` and `top_p` the recipe decides.
        """
        limits = self._limits
        settings: dict[str, Any] = {}
        if (tokens := content.get("max_tokens")) is not None:
            high = limits.new_tokens
            settings["max_length"] = check_integer(tokens, "max_tokens", 1, high)
        top_p, temperature = content.get("top_p"), content.get("temperature")
        if top_p is not None or temperature is not None:
            heat = 1.0 if temperature is None else check_number(temperature, "temperature", 0, 2)
            share = 1.0 if top_p is None else check_number(top_p, "top_p", 0, 1)
            settings = {**settings, "sample": heat > 0, "beam": 1}
            if heat > 0:
                settings |= {"temperature": max(heat, 1e-6), "top_p": max(share, 1e-9)}
        if (seed := content.get("seed")) is not None:
            settings["seed"] = check_integer(seed, "seed", 0, 2**31 - 1)
        if stop := check_stop(content.get("stop"), "stop", limits):
            settings["stop"] = stop
        return check_decoding(settings, limits)

    async def _stream(
        self,
        request: Request,
        model: ServedModel,
        message: dict[str, Any],
        prompt: str,
        max_tokens: int,
        with_usage: bool,
    ) -> Response:
        seconds = deadline_seconds(request, self._limits)
        parts: Stream = asyncio.Queue()
        items = model.submit(message, [prompt], seconds, parts.put_nowait)
        items[0].done.add_done_callback(lambda _: parts.put_nowait(None))
        korean = prefers_korean(header(request.scope["headers"], b"accept-language"))
        events = _events(model, items, parts, max_tokens, with_usage, korean)

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
    max_tokens: int,
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
        yield event({"choices": [_choice("", 0, _finish_reason(answers[0], max_tokens))], **usage})
        if with_usage:
            yield event({"choices": [], "usage": _usage(answers)})
        yield b"data: [DONE]\n\n"
    except RequestError as error:
        yield b"data: " + error_body(error, korean=korean) + b"\n\n"
    finally:
        model.queue.cancel(items)


def _includes_usage(options: object, streamed: bool) -> bool:
    """Whether `stream_options` asks for an event with the counted tokens."""
    if options is None:
        return False
    if not streamed:
        raise invalid("stream_options needs stream = true; leave it out", "stream_options")
    known = isinstance(options, dict) and set(options) <= {"include_usage"}
    included = options.get("include_usage", False) if known else None  # type: ignore[attr-defined]
    if not isinstance(included, bool):
        raise invalid(
            "stream_options must have include_usage, true or false; change it", "stream_options"
        )
    return included


def _completion(model: ServedModel, answers: list[Answer], max_tokens: int) -> dict[str, Any]:
    """The response of a completion that is not streamed."""
    choices = [
        _choice(parse_json(each.payload)["output"], number, _finish_reason(each, max_tokens))
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


def _finish_reason(answer: Answer, max_tokens: int) -> str:
    """`length` where as many tokens were generated as the request allows."""
    return "length" if 0 < max_tokens <= answer.info["new_tokens"] else "stop"


def _usage(answers: list[Answer]) -> dict[str, int]:
    prompt_tokens = sum(each.info["tokens"] for each in answers)
    new_tokens = sum(each.info["new_tokens"] for each in answers)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": new_tokens,
        "total_tokens": prompt_tokens + new_tokens,
    }
