"""The description of all routes at GET /openapi.json, in OpenAPI 3.1."""

from typing import Any

from jumok.serving.limits import Limits
from jumok.serving.requests import INTEGERS, MAX_INTEGER, MAX_SETTING_CHARS, NUMBERS

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
MODEL: Schema = {"type": ["string", "null"], "description": "Null or left out: the first one."}
ERROR: Schema = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": STRING,
                "type": STRING,
                "param": {"type": ["string", "null"]},
                "code": {"type": "integer"},
            },
        }
    },
}
STATUSES = {
    "400": "The request is invalid.",
    "401": "The token is missing or wrong.",
    "403": "The request comes from another origin.",
    "404": "There is no such model.",
    "405": "The method is not allowed.",
    "408": "The request arrived too slowly.",
    "409": "The new version was not loaded.",
    "413": "The body is too long.",
    "415": "The body is not plain JSON.",
    "421": "The Host header names another server.",
    "429": "The server is overloaded; see Retry-After.",
    "500": "The model or the server failed.",
    "503": "The model is not ready; see Retry-After.",
    "504": "The deadline passed.",
}


def object_of(required: list[str], **properties: Schema) -> Schema:
    """The schema of an object without other keys."""
    return {
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": False,
    }


READS = {  # path: summary
    "/v1/models": "The served models.",
    "/v1/limits": "All limits.",
    "/health": "200 while the server runs.",
    "/ready": "200 when all models are warm.",
    "/info": "The first model.",
    "/languages": "The languages of all translating models.",
    "/openapi.json": "This description.",
}


def posts(limits: Limits) -> dict[str, tuple[str, Schema, Schema]]:
    """The summary, request and reply of each path that is posted to."""
    text = {"type": "string", "maxLength": limits.text_bytes}
    texts = {"type": "array", "items": text, "minItems": 1, "maxItems": limits.texts}
    one_or_more = {"anyOf": [text, texts]}
    numbers = {"type": "array", "items": {"type": "number"}}
    anything: Schema = {}
    return {
        "/v1/predict": (
            "The answers of jumok predict --json.",
            object_of(["texts"], texts=texts, model=MODEL, decoding=_decoding(limits)),
            object_of(
                ["model", "hash", "answers"],
                model=STRING,
                hash=STRING,
                answers={"type": "array", "items": {"type": "object"}},
            ),
        ),
        "/predict": (
            "Labels and scores, as text-embeddings-inference.",
            object_of(
                ["inputs"],
                inputs={"anyOf": [text, {"type": "array", "minItems": 1, "items": one_or_more}]},
                raw_scores={"enum": [False, None]},
                truncate=anything,
                truncation_direction=anything,
                parameters=anything,
            ),
            {"type": "array"},
        ),
        "/embed": (
            "Embeddings, as text-embeddings-inference.",
            object_of(
                ["inputs"],
                inputs=one_or_more,
                normalize={"type": "boolean"},
                truncate=anything,
                truncation_direction=anything,
                parameters=anything,
            ),
            {"type": "array", "items": numbers},
        ),
        "/similarity": (
            "Cosines of a sentence with others, as text-embeddings-inference.",
            object_of(
                ["inputs"],
                inputs=object_of(
                    ["source_sentence", "sentences"], source_sentence=text, sentences=texts
                ),
                parameters=anything,
            ),
            numbers,
        ),
        "/v1/embeddings": (
            "Embeddings, as OpenAI.",
            object_of(
                ["input"],
                input=one_or_more,
                model=MODEL,
                encoding_format={"enum": ["float", "base64"]},
                user=anything,
            ),
            {"type": "object"},
        ),
        "/v1/completions": (
            "Continuations, as OpenAI; with stream as server-sent events.",
            _completion(one_or_more, limits),
            {"type": "object"},
        ),
        "/translate": (
            "Translations, as LibreTranslate; the request may also be a form.",
            object_of(
                ["q"],
                q=one_or_more,
                source=STRING,
                target=STRING,
                format={"enum": ["text"]},
                alternatives={"type": "integer", "minimum": 0, "maximum": limits.beam - 1},
                api_key=anything,
            ),
            {"type": "object", "required": ["translatedText"]},
        ),
        "/admin/reload": (
            "Load models again from their folders.",
            object_of([], model=MODEL),
            {"type": "object", "required": ["reloaded"]},
        ),
    }


def _decoding(limits: Limits) -> Schema:
    """The settings of [decoding] that a request may change."""
    highest = {"beam": limits.beam, "n_best": limits.n_best, "max_length": limits.new_tokens}
    integers = {
        key: {"type": "integer", "minimum": low, "maximum": highest.get(key, MAX_INTEGER)}
        for key, low in INTEGERS.items()
    }
    return {
        "type": ["object", "null"],
        "description": "See docs/decoding.md.",
        "properties": {
            **integers,
            **{key: {"type": "number", "minimum": -1e6, "maximum": 1e6} for key in NUMBERS},
            "sample": {"type": "boolean"},
            "prefix": {"type": "string", "maxLength": MAX_SETTING_CHARS},
            "stop": _stop(limits),
        },
        "additionalProperties": False,
    }


def _stop(limits: Limits) -> Schema:
    string = {"type": "string", "minLength": 1, "maxLength": MAX_SETTING_CHARS}
    return {"type": "array", "items": string, "maxItems": limits.stop}


def _completion(prompt: Schema, limits: Limits) -> Schema:
    """A request of OpenAI's completions."""
    stop = _stop(limits)
    zero, one = {"enum": [0, None]}, {"enum": [1, None]}
    return object_of(
        ["prompt"],
        prompt=prompt,
        model=MODEL,
        max_tokens={"type": ["integer", "null"], "minimum": 1, "maximum": limits.new_tokens},
        temperature={"type": ["number", "null"], "minimum": 0, "maximum": 2},
        top_p={"type": ["number", "null"], "minimum": 0, "maximum": 1},
        n=one,
        best_of=one,
        stream={"type": ["boolean", "null"]},
        stream_options={
            "anyOf": [object_of([], include_usage={"type": "boolean"}), {"type": "null"}],
            "description": "Null unless stream is true.",
        },
        stop={"anyOf": [stop["items"], stop, {"type": "null"}]},
        seed={"type": ["integer", "null"], "minimum": 0, "maximum": MAX_INTEGER},
        user={},
        echo={"enum": [False, None]},
        logprobs={"type": "null"},
        suffix={"enum": ["", None]},
        frequency_penalty=zero,
        presence_penalty=zero,
    )


def openapi(version: str, limits: Limits, *, token: bool, traces: bool) -> Schema:
    """The whole description."""
    paths: dict[str, Schema] = {
        path: {"post": _operation(summary, reply, request)}
        for path, (summary, request, reply) in posts(limits).items()
    }
    if traces:
        request = object_of(["text"], text=STRING, model=MODEL)
        fields = {"model": STRING, "hash": STRING, "address": STRING}
        reply = object_of(list(fields), **fields)
        paths["/v1/trace"] = {"post": _operation("A page with the attention.", reply, request)}
    for path, summary in READS.items():
        reply = {"type": "array"} if path == "/languages" else {"type": "object"}
        paths[path] = {"get": _operation(summary, reply)}
    metrics = _operation("Prometheus metrics.", STRING)
    metrics["responses"]["200"]["content"] = {"text/plain": {"schema": STRING}}
    paths["/metrics"] = {"get": metrics}
    completions = paths["/v1/completions"]["post"]["responses"]["200"]["content"]
    completions["text/event-stream"] = {"schema": STRING}
    found: Schema = {
        "openapi": "3.1.0",
        "info": {"title": "jumok serve", "version": version},
        "paths": paths,
    }
    if token:
        found["components"] = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}
        found["security"] = [{"token": []}]
    return found


def _operation(summary: str, reply: Schema, request: Schema | None = None) -> Schema:
    responses: Schema = {
        "200": {
            "description": "The answer.",
            "content": {"application/json": {"schema": reply}},
        }
    }
    for status, text in STATUSES.items():
        responses[status] = {
            "description": text,
            "content": {"application/json": {"schema": ERROR}},
        }
    operation: Schema = {"summary": summary, "responses": responses}
    if request is not None:
        body = {"content": {"application/json": {"schema": request}}, "required": True}
        operation["requestBody"] = body
    return operation
