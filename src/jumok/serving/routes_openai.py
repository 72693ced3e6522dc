"""The routes of OpenAI's API: completions and chats with streaming, and embeddings."""

import asyncio
import base64
import json
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
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
    text,
    texts,
    texts_or_ids,
)
from jumok.serving.limits import Limits
from jumok.serving.openapi import EVENTS, JSON, ApiRoute
from jumok.serving.replies import error_body, json_bytes, json_reply
from jumok.serving.requests import as_payloads, deadline_seconds, decoding, stop_strings
from jumok.serving.routes import answer, one_version
from jumok.serving.routes_tei import embeddings, first_dimensions
from jumok.serving.scheduler import Answer, Item
from jumok.serving.service import ServedModel, Service, gather_answers
from jumok.web.app import Route
from jumok.web.errors import RequestError
from jumok.web.requests import header, read_object, watched

Stream = asyncio.Queue[bytes | None]
MAX_LOGPROBS = 5  # of OpenAI's API


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
        self._chat = object_of(_chat_fields(limits), ["messages"])
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
                *("POST", "/v1/chat/completions", self.chat_completions),
                summary="Answers of a chat model, as OpenAI; with stream as server-sent events.",
                request=self._chat,
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
            param="input",
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
        _check_stream(content)
        model = self._service.model_that("generates", "generate text", content.get("model"))
        prompts, ids = as_payloads(content["prompt"])
        echo, logprobs = bool(content.get("echo")), content.get("logprobs")
        empty = content.get("max_tokens") == 0
        message = {"kind": "predict", "decoding": self._decoding(content), "count": True}
        if ids or empty or logprobs is not None:
            message |= {"kind": "complete", "prompt": "ids" if ids else "text", "empty": empty}
            message |= {"logprobs": logprobs, "echo": echo}
        if content.get("stream"):
            if len(prompts) != 1 or echo:
                raise RequestError(
                    "request.stream_several_prompts",
                    "stream needs one prompt, without echo; send several requests",
                    "stream",
                )
            if message["kind"] == "predict":
                message["kind"] = "stream"
            return await self._stream(request, model, message, prompts[0], content, COMPLETION)
        answers = await answer(request, model, message, prompts, self._limits, "prompt")
        one_version(answers)
        outputs = [parse_json(each.payload) for each in answers]
        before = [
            output.get("prompt", prompt) if echo else ""
            for prompt, output in zip(prompts, outputs, strict=True)
        ]
        choices = [
            COMPLETION.last(each, outputs[n], before[n] + outputs[n]["output"], n)
            for n, each in enumerate(answers)
        ]
        reply = {**COMPLETION.start(model), "choices": choices, "usage": _usage(answers)}
        return json_reply(reply, headers={HASH_HEADER: answers[0].hash})

    async def chat_completions(self, request: Request) -> Response:
        """The answer of a chat model to messages, whole or as server-sent events."""
        content = self._chat.check(await read_object(request, self._limits), "")
        _check_stream(content)
        model = self._service.model_that("chats", "have a chat template", content.get("model"))
        if (tokens := content.get("max_completion_tokens")) is not None:
            content["max_tokens"] = tokens
        message: dict[str, Any] = {"kind": "complete", "decoding": self._decoding(content)}
        message |= {
            "prompt": "messages",
            "fits": content.get("max_tokens") is None,
            "stream": content.get("stream"),
        }
        messages = json.dumps(content["messages"], ensure_ascii=False)
        if content.get("stream"):
            return await self._stream(request, model, message, messages, content, CHAT)
        answers = await answer(request, model, message, [messages], self._limits, "messages")
        output = parse_json(answers[0].payload)
        choice = CHAT.last(answers[0], output, output["output"], 0)
        reply = {**CHAT.start(model), "choices": [choice], "usage": _usage(answers)}
        return json_reply(reply, headers={HASH_HEADER: answers[0].hash})

    def _decoding(self, content: dict[str, Any]) -> str:
        """The settings of [decoding].

        Temperature 0 is greedy search; without `temperature` and `top_p` the recipe decides.
        """
        settings: dict[str, Any] = {}
        if tokens := content.get("max_tokens"):
            settings["max_length"] = tokens
        top_p, temperature = content.get("top_p"), content.get("temperature")
        if top_p is not None or temperature is not None:
            heat = 1.0 if temperature is None else temperature
            share = 1.0 if top_p is None else top_p
            settings = {**settings, "sample": heat > 0, "beam": 1}
            if heat > 0:
                settings |= {"temperature": max(heat, 1e-6), "top_p": max(share, 1e-9)}
        if (seed := content.get("seed")) is not None and seed >= 0:
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
        content: dict[str, Any],
        form: "_Form",
    ) -> Response:
        message["stream"] = True
        with_usage = (content.get("stream_options") or {}).get("include_usage", False)
        seconds = deadline_seconds(request, self._limits)
        parts: Stream = asyncio.Queue()
        items = model.submit(message, [prompt], seconds, parts.put_nowait)
        items[0].done.add_done_callback(lambda _: parts.put_nowait(None))
        korean = prefers_korean(header(request.scope["headers"], b"accept-language"))
        events = _events(model, items, parts, form, with_usage, korean)

        async def drop() -> None:
            model.cancel(items)

        with watched(request, lambda: model.cancel(items)):
            version = await model.version(items[0])
        headers = {HASH_HEADER: version, "cache-control": "no-store"}
        return StreamingResponse(
            events, 200, headers, "text/event-stream", background=BackgroundTask(drop)
        )


async def _events(
    model: ServedModel,
    items: list[Item],
    parts: Stream,
    form: "_Form",
    with_usage: bool,
    korean: bool,
) -> AsyncIterator[bytes]:
    """One event for each final part of the text, then the reason of its end, then the usage.

    The queue ends `parts` also for a text whose deadline has passed or whose process was lost.
    """
    start = form.start(model, streamed=True)
    usage: dict[str, Any] = {"usage": None} if with_usage else {}

    def event(content: dict[str, Any]) -> bytes:
        return b"data: " + json_bytes({**start, **content}) + b"\n\n"

    try:
        if form.chat:
            yield event({"choices": [form.choice("", 0, None, part=True, first=True)], **usage})
        while (part := await parts.get()) is not None:
            yield event({"choices": [form.choice(part.decode(), 0, None, part=True)], **usage})
        answers = await gather_answers(model, items)
        last = form.last(answers[0], parse_json(answers[0].payload), "", 0, part=True)
        yield event({"choices": [last], **usage})
        if with_usage:
            yield event({"choices": [], "usage": _usage(answers)})
        yield b"data: [DONE]\n\n"
    except RequestError as error:
        yield b"data: " + error_body(error, korean=korean) + b"\n\n"
    finally:
        model.cancel(items)


@dataclass(frozen=True)
class _Form:
    """The objects of a completion or of a chat; a part is that of a stream."""

    chat: bool

    def start(self, model: ServedModel, *, streamed: bool = False) -> dict[str, Any]:
        """What a response, or all events of a stream, begin with."""
        kind = "chat.completion" if self.chat else "text_completion"
        return {
            "id": f"{'chatcmpl' if self.chat else 'cmpl'}-{uuid.uuid4().hex}",
            "object": f"{kind}.chunk" if self.chat and streamed else kind,
            "created": int(time.time()),
            "model": model.name,
        }

    def choice(
        self, text: str, index: int, reason: str | None, *, part: bool = False, first: bool = False
    ) -> dict[str, Any]:
        """A choice with its text; the last part of a chat has none."""
        content: dict[str, Any] = {"text": text}
        if self.chat and part:
            delta: dict[str, Any] = {"role": "assistant"} if first else {}
            content = {"delta": delta | ({} if reason else {"content": text})}
        elif self.chat:
            content = {"message": {"role": "assistant", "content": text, "refusal": None}}
        return {**content, "index": index, "logprobs": None, "finish_reason": reason}

    def last(
        self, answer: Answer, output: dict[str, Any], text: str, index: int, *, part: bool = False
    ) -> dict[str, Any]:
        """A choice with its reason of ending; with log-probabilities, seed and warnings, if any."""
        keys = ("logprobs", "seed", "warnings")
        more = {key: output[key] for key in keys if output.get(key) is not None}
        return {**self.choice(text, index, answer.info["finish_reason"], part=part), **more}


COMPLETION, CHAT = _Form(chat=False), _Form(chat=True)


def _check_stream(content: dict[str, Any]) -> None:
    """Raise RequestError for options of a stream without one."""
    if content.get("stream_options") is not None and not content.get("stream"):
        raise RequestError(
            "request.stream_options",
            "stream_options needs stream = true; leave it out",
            "stream_options",
        )


def _not_one(param: str) -> RequestError:
    return RequestError(
        "request.not_one", "{param} must be 1; use decoding.n_best of /v1/predict", param
    )


def _generation_fields(limits: Limits, least: int) -> dict[str, Field]:
    """What completions and chats have in common; some fields have their neutral values only."""
    no_penalty, one = only(0, None), only(1, None, refusal=_not_one)
    usage = nullable(object_of({"include_usage": BOOLEAN}))
    return {
        "model": MODEL,
        "max_tokens": nullable(integer(least, limits.new_tokens)),
        "temperature": nullable(number(0, 2)),
        "top_p": nullable(number(0, 1)),
        "n": one,
        "stream": nullable(BOOLEAN),
        "stream_options": described(usage, "Null unless stream is true."),
        "stop": nullable(one_or_several(stop_strings(limits))),
        "seed": described(nullable(integer(-1)), "Null, left out or -1: a random one."),
        "user": ANYTHING,
        "frequency_penalty": no_penalty,
        "presence_penalty": no_penalty,
        "logit_bias": only({}, None),
    }


def _completion_fields(limits: Limits) -> dict[str, Field]:
    return {
        "prompt": texts_or_ids(limits),
        **_generation_fields(limits, least=0),
        "best_of": only(1, None, refusal=_not_one),
        "echo": nullable(BOOLEAN),
        "logprobs": nullable(integer(0, MAX_LOGPROBS)),
        "suffix": only("", None),
    }


def _chat_fields(limits: Limits) -> dict[str, Field]:
    fields = _generation_fields(limits, least=1)
    return {
        "messages": messages(limits),
        **fields,
        "max_completion_tokens": fields["max_tokens"],
        "logprobs": only(False, None),
        "top_logprobs": only(0, None),
        "response_format": only({"type": "text"}, None),
        "store": only(False, None),
        "tools": only([], None),
        "tool_choice": only("none", "auto", None),
    }


def messages(limits: Limits) -> Field:
    """The messages of a chat; the value has the roles that a template knows, and plain texts.

    >>> part = {"type": "text", "text": "a"}
    >>> messages(Limits()).check([{"role": "developer", "content": [part]}], "messages")
    [{'role': 'system', 'content': 'a'}]
    """
    one, several, high = text(limits), texts(limits), limits.texts
    part = object_of({"type": only("text"), "text": one}, ["type", "text"])
    parts = {"type": "array", "items": part.schema, "minItems": 1, "maxItems": high}

    def check_content(value: object, param: str) -> str:
        if not isinstance(value, list):
            return str(one.check(value, param))
        found = [part.check(each, f"{param}[{n}]")["text"] for n, each in enumerate(value)]
        return "".join(several.check(found, param))

    content = Field({"anyOf": [one.schema, parts]}, check_content)
    roles = choice("system", "developer", "user", "assistant")
    message = object_of({"role": roles, "content": content}, ["role", "content"])

    def check(value: object, param: str) -> list[dict[str, str]]:
        if not isinstance(value, list) or not 1 <= len(value) <= high:
            raise RequestError(
                "request.not_messages",
                "{param} must be a list of 1 to {high} objects with role and content",
                param,
                high=high,
            )
        found = [message.check(each, f"{param}[{n}]") for n, each in enumerate(value)]
        return [
            {**each, "role": "system"} if each["role"] == "developer" else each for each in found
        ]

    schema = {"type": "array", "items": message.schema, "minItems": 1, "maxItems": high}
    return Field(schema, check)


def _usage(answers: list[Answer]) -> dict[str, int]:
    prompt_tokens = sum(each.info["tokens"] for each in answers)
    new_tokens = sum(each.info["new_tokens"] for each in answers)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": new_tokens,
        "total_tokens": prompt_tokens + new_tokens,
    }
