"""Responses of the server: JSON, and errors in the shape of OpenAI's API."""

import json
import re
from collections.abc import Mapping, Sequence

from starlette.responses import Response

from jumok.language import localize
from jumok.web.errors import RequestError

MAX_ERROR_BYTES = 2_048

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

_encode = json.JSONEncoder(ensure_ascii=False).encode


def json_bytes(content: object) -> bytes:
    """JSON in UTF-8.

    >>> json_bytes({"text": "가"}).decode()
    '{"text": "가"}'
    """
    return _encode(content).encode()


def json_reply(
    content: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A JSON response."""
    return Response(json_bytes(content), status, headers, "application/json")


def error_body(error: RequestError, korean: bool = False) -> bytes:
    """The body of an error response.

    >>> error_body(RequestError("request.list", "{param} must be a list", "texts")).decode()[:47]
    '{"error": {"message": "texts must be a list", "'
    """
    message = localize(error.message, "ko" if korean else "en")
    fields = {
        "message": _CONTROL.sub(" ", message)[: MAX_ERROR_BYTES // 4],
        "type": error.kind,
        "param": error.param,
        "code": error.message.code,
    }
    return json_bytes({"error": fields})


def join_lines(start: Mapping[str, str], key: str, lines: Sequence[bytes]) -> bytes:
    """A JSON object whose last value is a list of JSON texts, which are copied byte for byte.

    >>> join_lines({"model": "m"}, "answers", [b'{"a": 1}', b'{"a": 2}']).decode()
    '{"model": "m", "answers": [{"a": 1}, {"a": 2}]}'
    """
    head = json_bytes({**start, key: []})
    return head[:-2] + b", ".join(lines) + b"]}"
