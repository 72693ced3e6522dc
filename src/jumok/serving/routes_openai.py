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

from jumok.safe_json import parse_json
from jumok.serving.app import Route
from jumok.serving.limits import Limits
from jumok.serving.replies import RequestError, error_body, invalid, json_bytes, json_reply
from jumok.serving.requests import (
    check_choice,
    check_decoding,
    check_integer,
    check_keys,
    check_number,
    check_stop,
    check_texts,
    deadline_seconds,
    read_object,
)
from jumok.serving.routes import HASH_HEADER, answer, one_version
from jumok.serving.routes_tei import embeddings
from jumok.serving.scheduler import Answer, Item
from jumok.serving.service import ServedModel, Service, gather_answers

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
        decoding, n = self._decoding(content)
        streamed = content.get("stream", False)
        if not isinstance(streamed, bool | None):
            raise invalid("stream must be true or false; change it", "stream")
        message = {"kind": "predict", "decoding": decoding, "count": True}
        if not streamed:
            answers = await answer(request, model, message, prompts, self._limits)
            one_version(answers)
            reply = _completion(model, answers, n, int(content.get("max_tokens") or 0))
            return json_reply(reply, headers={HASH_HEADER: answers[0].hash})
        if len(prompts) != 1 or n != 1:
            raise invalid("stream needs one prompt and n = 1; send several requests", "stream")
        return self._stream(request, model, {**message, "kind": "stream"}, prompts[0])

    def _decoding(self, content: dict[str, Any]) -> tuple[str, int]:
        """The settings of [decoding], and the number of choices.

        Temperature 0 is greedy search; without a temperature the recipe decides.
        """
        limits = self._limits
        settings: dict[str, Any] = {}
        n = content.get("n")
        n = 1 if n is None else check_integer(n, "n", 1, limits.n_best)
        if content.get("best_of") not in (None, n):
            raise invalid("best_of must be equal to n; leave it out", "best_of")
        if (tokens := content.get("max_tokens")) is not None:
            high = limits.new_tokens
            settings["max_length"] = check_integer(tokens, "max_tokens", 1, high)
        if (temperature := content.get("temperature")) is not None:
            heat = check_number(temperature, "temperature", 0, 2)
            settings["sample"] = heat > 0
            settings["beam"] = 1
            if heat > 0:
                settings["temperature"] = max(heat, 1e-6)
        if (top_p := content.get("top_p")) is not None:
            share = max(check_number(top_p, "top_p", 0, 1), 1e-9)
            if settings.get("sample"):
                settings["top_p"] = share
        if (seed := content.get("seed")) is not None:
            settings["seed"] = check_integer(seed, "seed", 0, 2**31 - 1)
        if stop := check_stop(content.get("stop"), "stop", limits):
            settings["stop"] = stop
        if n > 1:
            settings["n_best"] = n
            if not settings.get("sample"):
                settings["beam"] = n
        return check_decoding(settings, limits), n

    def _stream(
        self, request: Request, model: ServedModel, message: dict[str, Any], prompt: str
    ) -> Response:
        seconds = deadline_seconds(request, self._limits)
        parts: Stream = asyncio.Queue()
        items = model.submit(message, [prompt], seconds, parts.put_nowait)
        items[0].done.add_done_callback(lambda _: parts.put_nowait(None))
        events = _events(model, items, seconds, parts)

        async def drop() -> None:
            model.queue.cancel(items)

        headers = {HASH_HEADER: model.hash, "cache-control": "no-store"}
        return StreamingResponse(
            events, 200, headers, "text/event-stream", background=BackgroundTask(drop)
        )


async def _events(
    model: ServedModel, items: list[Item], seconds: float, parts: Stream
) -> AsyncIterator[bytes]:
    """One event for each final part of the text, the last one with the reason of its end."""
    start = {"id": f"cmpl-{uuid.uuid4().hex}", "object": "text_completion"}
    start |= {"created": int(time.time()), "model": model.name}  # type: ignore[dict-item]

    def event(text: str, reason: str | None) -> bytes:
        choice = {"text": text, "index": 0, "logprobs": None, "finish_reason": reason}
        return b"data: " + json_bytes({**start, "choices": [choice]}) + b"\n\n"

    try:
        async with asyncio.timeout(seconds):
            while (part := await parts.get()) is not None:
                yield event(part.decode(), None)
        await gather_answers(model, items)
        yield event("", "stop")
        yield b"data: [DONE]\n\n"
    except TimeoutError:
        late = RequestError(504, "timeout", "the deadline passed; allow more time")
        yield b"data: " + error_body(late) + b"\n\n"
    except RequestError as error:
        yield b"data: " + error_body(error) + b"\n\n"
    finally:
        model.queue.cancel(items)


def _completion(
    model: ServedModel, answers: list[Answer], n: int, max_tokens: int
) -> dict[str, Any]:
    """The response of a completion that is not streamed."""
    choices: list[dict[str, Any]] = []
    for each in answers:
        output = parse_json(each.payload)
        texts = [one["output"] for one in output.get("n_best", ())] or [output["output"]]
        for text in texts[:n]:
            full = 0 < max_tokens <= each.info["new_tokens"]
            reason = "length" if full else "stop"
            choices.append(
                {"text": text, "index": len(choices), "logprobs": None, "finish_reason": reason}
            )
    prompt_tokens = sum(each.info["tokens"] for each in answers)
    new_tokens = sum(each.info["new_tokens"] for each in answers)
    return {
        "id": f"cmpl-{uuid.uuid4().hex}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": model.name,
        "choices": choices,
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": new_tokens,
            "total_tokens": prompt_tokens + new_tokens,
        },
    }
