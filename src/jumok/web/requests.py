"""Requests: headers, and the body within its limits."""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from starlette.requests import Request

from jumok.errors import InputError, or_list
from jumok.safe_json import parse_json
from jumok.web.errors import RequestError

JSON = "application/json"
LINGER_SECONDS, LINGER_BYTES = 1.0, 2**23

Headers = Sequence[tuple[bytes, bytes]]  # of a request, the names in lower case


class ClientGone(Exception):  # noqa: N818  (it is not an error)
    """The client closed the connection."""


def header(headers: Headers, name: bytes) -> str | None:
    """The first value of a header; those of Starlette take ten times as long.

    >>> header([(b"host", b"localhost"), (b"host", b"x")], b"host")
    'localhost'
    """
    for key, value in headers:
        if key == name:
            return value.decode("latin-1")
    return None


class BodyLimits(Protocol):
    """The size of a body, and the seconds in which it must arrive."""

    @property
    def body_bytes(self) -> int: ...  # noqa: D102

    @property
    def body_seconds(self) -> float: ...  # noqa: D102


async def read_object(
    request: Request, limits: BodyLimits, *, allow_surrogates: bool = False
) -> dict[str, Any]:
    """The JSON object of a POST request. Raises RequestError for anything else."""
    return json_object(await read_body(request, limits, (JSON,)), allow_surrogates)


def media_type(request: Request) -> str:
    """The media type of the body."""
    content_type = header(request.scope["headers"], b"content-type") or ""
    return content_type.partition(";")[0].strip().lower()


def _check_headers(request: Request, limits: BodyLimits, types: Sequence[str]) -> None:
    """Raise RequestError for a body that need not be read."""
    headers = request.scope["headers"]
    if media_type(request) not in types:
        raise RequestError(
            "request.content_type",
            "content-type must be {types}; set the header",
            status=415,
            types=or_list(types),
        )
    encoding = header(headers, b"content-encoding")
    if encoding is not None and encoding.lower() != "identity":
        raise RequestError(
            "request.compressed", "the body must not be compressed; send it as it is", status=415
        )
    declared = header(headers, b"content-length") or ""
    if declared.isdecimal() and (len(declared) > 15 or int(declared) > limits.body_bytes):
        raise _too_long(limits)


async def read_body(request: Request, limits: BodyLimits, types: Sequence[str]) -> bytes:
    """The body of a request of one of these media types. Raises RequestError."""
    try:
        _check_headers(request, limits, types)
    except RequestError:
        await discard_body(request)
        raise
    body, more = bytearray(), True
    try:
        async with asyncio.timeout(limits.body_seconds):
            while more and len(body) <= limits.body_bytes:
                message = await request.receive()
                if message["type"] != "http.request":
                    raise ClientGone
                body += message["body"]
                more = message["more_body"]
    except TimeoutError:
        raise RequestError(
            "request.body_too_slow", "the body must arrive faster; send it at once", status=408
        ) from None
    if len(body) > limits.body_bytes:
        if more:
            await discard_body(request)
        raise _too_long(limits)
    return bytes(body)


async def discard_body(request: Request) -> None:
    """Read what comes of a refused body within a second, as far as clients send on.

    The system resets a connection that is closed with unread bytes, and the client may then lose
    the response that explains why.
    """
    if header(request.scope["headers"], b"expect") is not None:  # the client has not sent it yet
        return
    n, more = 0, True
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while more and n < LINGER_BYTES:
                message = await request.receive()
                n += len(message.get("body", b""))
                more = message.get("more_body", False)


@contextmanager
def watched(request: Request, on_leave: Callable[[], None]) -> Iterator[None]:
    """Call a function if the client of a request leaves meanwhile; its body has been read."""

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        on_leave()

    task = asyncio.create_task(watch())
    try:
        yield
    finally:
        task.cancel()


def json_object(body: bytes, allow_surrogates: bool = False) -> dict[str, Any]:
    """The JSON object in a body. Raises RequestError for anything else."""
    try:
        return parse_json(body, allow_surrogates=allow_surrogates)
    except InputError:
        raise RequestError(
            "request.not_json",
            "the body must be a JSON object in UTF-8 without duplicate names, NaN, halves "
            "of surrogate pairs or deep nesting; correct it",
        ) from None


def _too_long(limits: BodyLimits) -> RequestError:
    """The error of a body that is too long."""
    return RequestError(
        "request.body_too_long",
        "the body must have at most {body_bytes} bytes; send fewer texts",
        status=413,
        body_bytes=limits.body_bytes,
    )


def check_keys(content: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise RequestError that names the first unknown key."""
    for key in content:
        if key not in known:
            raise RequestError(
                "request.unknown_key",
                "the keys must be among {known}, got {key!r:.40}; remove it",
                known=", ".join(sorted(known)),
                key=key,
            )
