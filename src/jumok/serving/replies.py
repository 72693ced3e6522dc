"""Responses of the server: JSON, and errors in the shape of OpenAI's API."""

import json
from collections.abc import Mapping, Sequence

from starlette.responses import Response

from jumok.language import korean_message

MAX_ERROR_BYTES = 2_048

_encode = json.JSONEncoder(ensure_ascii=False).encode


class RequestError(Exception):
    """A request that gets an error response. The message never repeats the input."""

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        *,
        param: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.param = status, kind, param
        self.message, self.retry_after = message, retry_after


def invalid(message: str, param: str | None = None, status: int = 400) -> RequestError:
    """An error of the client."""
    return RequestError(status, "invalid_request_error", message, param=param)


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


def error_body(error: RequestError, *, korean: bool = False) -> bytes:
    """The body of an error response.

    >>> error_body(invalid("texts must be a list", "texts")).decode()[:47]
    '{"error": {"message": "texts must be a list", "'
    """
    message = error.message[: MAX_ERROR_BYTES // 4]
    if korean:
        message = korean_message(message, cut=True)[: MAX_ERROR_BYTES // 4]
    fields = {
        "message": message,
        "type": error.kind,
        "param": error.param,
        "code": error.status,
    }
    return json_bytes({"error": fields})


def error_reply(error: RequestError, *, korean: bool = False) -> Response:
    """The response of an error; connections are closed where the body may be unread."""
    headers = {"vary": "accept-language"}
    if error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    if error.status in (400, 401, 403, 408, 413, 415, 421):
        headers["connection"] = "close"
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    body = error_body(error, korean=korean)
    return Response(body, error.status, headers, "application/json")


def join_lines(start: Mapping[str, str], key: str, lines: Sequence[bytes]) -> bytes:
    """A JSON object whose last value is a list of JSON texts, which are copied byte for byte.

    >>> join_lines({"model": "m"}, "answers", [b'{"a": 1}', b'{"a": 2}']).decode()
    '{"model": "m", "answers": [{"a": 1}, {"a": 2}]}'
    """
    head = json_bytes({**start, key: []})
    return head[:-2] + b", ".join(lines) + b"]}"
