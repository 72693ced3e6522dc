"""Requests: the body within its limits, and checked values out of untrusted JSON."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request

from jumok.errors import InputError
from jumok.safe_json import parse_json
from jumok.serving.limits import Limits
from jumok.serving.replies import RequestError, invalid

DEADLINE_HEADER = "x-jumok-deadline-ms"
INTEGERS = {  # settings of [decoding] that a request may change, with their range
    "beam": 1,
    "n_best": 1,
    "max_length": 1,
    "min_length": 0,
    "top_k": 0,
    "no_repeat_ngram": 0,
    "seed": 0,
}
NUMBERS = ("temperature", "top_p", "min_p", "typical_p", "repetition_penalty", "length_penalty")
OTHERS: dict[str, type] = {"sample": bool, "prefix": str, "stop": list}
DECODING_KEYS = (*INTEGERS, *NUMBERS, *OTHERS)
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
MAX_FORM_FIELDS = 16
MAX_SETTING_CHARS = 1_000
MAX_INTEGER = 2**31 - 1


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


async def read_object(request: Request, limits: Limits) -> dict[str, Any]:
    """The JSON object of a POST request. Raises RequestError for anything else."""
    return _object(await _read_body(request, limits, (JSON,)))


async def read_form_or_object(
    request: Request, limits: Limits, integers: Collection[str]
) -> dict[str, Any]:
    """The JSON object or the form of a POST request; the fields in `integers` are integers."""
    body = await _read_body(request, limits, (JSON, FORM))
    return _object(body) if _media_type(request) == JSON else _form(body, integers)


def _media_type(request: Request) -> str:
    content_type = header(request.scope["headers"], b"content-type") or ""
    return content_type.partition(";")[0].strip().lower()


async def _read_body(request: Request, limits: Limits, types: Sequence[str]) -> bytes:
    headers = request.scope["headers"]
    if _media_type(request) not in types:
        raise invalid(f"content-type must be {' or '.join(types)}; set the header", status=415)
    encoding = header(headers, b"content-encoding")
    if encoding is not None and encoding.lower() != "identity":
        raise invalid("the body must not be compressed; send it as it is", status=415)
    declared = header(headers, b"content-length") or ""
    if declared.isdecimal() and (len(declared) > 15 or int(declared) > limits.body_bytes):
        raise too_long(limits)
    body, more = bytearray(), True
    while more:  # the protocol limits its time
        message = await request.receive()
        if message["type"] != "http.request":
            raise ClientGone
        body += message["body"]
        more = message["more_body"]
        if len(body) > limits.body_bytes:
            raise too_long(limits)
    return bytes(body)


def _object(body: bytes) -> dict[str, Any]:
    try:
        return parse_json(body)
    except InputError:
        raise invalid(
            "the body must be a JSON object in UTF-8 without duplicate names, NaN, halves of "
            "surrogate pairs or deep nesting; correct it"
        ) from None


def _form(body: bytes, integers: Collection[str]) -> dict[str, Any]:
    """The fields of a form.

    >>> _form(b"q=%EA%B0%80+b&alternatives=2", ("alternatives",))
    {'q': '가 b', 'alternatives': 2}
    """
    try:
        fields = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=MAX_FORM_FIELDS,
        )
    except ValueError:  # also of bytes that are not UTF-8
        fields = []
    found = dict(fields)
    if not fields or len(found) < len(fields):
        raise invalid(
            f"the form must have 1 to {MAX_FORM_FIELDS} fields in UTF-8 with different names, "
            "percent-encoded; correct it"
        )
    return {
        key: int(value) if key in integers and re.fullmatch("[0-9]{1,9}", value) else value
        for key, value in found.items()
    }


def too_long(limits: Limits) -> RequestError:
    """The error of a body that is too long."""
    return invalid(
        f"the body must have at most {limits.body_bytes} bytes; send fewer texts", status=413
    )


def check_keys(content: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise RequestError for unknown keys."""
    if not set(content) <= set(known):
        raise invalid(f"the keys must be among {', '.join(sorted(known))}; remove the others")


def check_text(value: object, param: str, limits: Limits) -> str:
    """A text that is not too long."""
    if not isinstance(value, str):
        raise invalid(f"{param} must be a string; see docs/serving.md", param)
    if len(value) > limits.text_bytes or len(value.encode()) > limits.text_bytes:
        raise invalid(f"{param} must have at most {limits.text_bytes} bytes; shorten it", param)
    return value


def check_texts(value: object, param: str, limits: Limits) -> list[str]:
    """A list of 1 or more texts."""
    if not isinstance(value, list) or not 1 <= len(value) <= limits.texts:
        raise invalid(f"{param} must be a list of 1 to {limits.texts} strings", param)
    return [check_text(text, f"{param}[{number}]", limits) for number, text in enumerate(value)]


def check_integer(value: object, param: str, low: int, high: int) -> int:
    """An integer from `low` to `high`."""
    if type(value) is not int or not low <= value <= high:
        raise invalid(f"{param} must be an integer from {low} to {high}; change it", param)
    return value


def check_number(value: object, param: str, low: float, high: float) -> float:
    """A number from `low` to `high`."""
    if type(value) not in (int, float) or not low <= value <= high:  # type: ignore[operator]
        raise invalid(f"{param} must be a number from {low:g} to {high:g}; change it", param)
    return float(value)  # type: ignore[arg-type]


def check_choice(value: object, param: str, choices: Sequence[str]) -> str:
    """One of several strings."""
    if value not in choices:
        raise invalid(f"{param} must be one of {', '.join(choices)}; change it", param)
    return str(value)


def check_decoding(value: object, limits: Limits) -> str:
    """The settings of [decoding] of a request, as JSON; "" for none."""
    if value is None:
        return ""
    if not isinstance(value, dict):
        raise invalid("decoding must be an object; see docs/decoding.md", "decoding")
    check_keys(value, DECODING_KEYS)
    highest = {"beam": limits.beam, "n_best": limits.n_best, "max_length": limits.new_tokens}
    for key, each in value.items():
        param = f"decoding.{key}"
        if key in INTEGERS:
            check_integer(each, param, INTEGERS[key], highest.get(key, MAX_INTEGER))
        elif key in NUMBERS:
            check_number(each, param, -1e6, 1e6)
        elif not isinstance(each, OTHERS[key]):
            raise invalid(f"{param} must be a {OTHERS[key].__name__}; change it", param)
        elif key == "stop":
            check_stop(each, param, limits)
        elif key == "prefix" and len(str(each)) > MAX_SETTING_CHARS:
            raise invalid(f"{param} must have at most {MAX_SETTING_CHARS} characters", param)
    return json.dumps(value, sort_keys=True) if value else ""


def check_stop(value: object, param: str, limits: Limits) -> list[str]:
    """Stop strings: one, several, or None."""
    strings = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(strings, list) or len(strings) > limits.stop:
        raise invalid(f"{param} must be at most {limits.stop} strings; remove some", param)
    for each in strings:
        if not isinstance(each, str) or not 1 <= len(each) <= MAX_SETTING_CHARS:
            raise invalid(
                f"{param} must have strings of 1 to {MAX_SETTING_CHARS} characters", param
            )
    return strings


def deadline_seconds(request: Request, limits: Limits) -> float:
    """The time that a request has, from its header or the limit."""
    given = header(request.scope["headers"], DEADLINE_HEADER.encode())
    if given is None:
        return limits.request_seconds
    if not (given.isascii() and given.isdecimal() and len(given) < 10):
        raise invalid(f"{DEADLINE_HEADER} must be a number of milliseconds; correct it")
    return check_integer(int(given), DEADLINE_HEADER, 1, limits.max_deadline_ms) / 1000
