"""Requests: settings of [decoding], forms, and the header with the deadline."""

import json
import re
from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request

from jumok.serving.fields import (
    BOOLEAN,
    Field,
    described,
    integer,
    nullable,
    number,
    object_of,
    string,
    strings,
)
from jumok.serving.limits import Limits
from jumok.web.errors import RequestError
from jumok.web.requests import JSON, header, json_object, media_type, read_body

DEADLINE_HEADER = "x-jumok-deadline-ms"
FORM = "application/x-www-form-urlencoded"
MAX_FORM_FIELDS = 16
MAX_SETTING_CHARS = 1_000


def decoding(limits: Limits) -> Field:
    """The settings of [decoding] that a request may change; the value is their JSON, "" for none.

    >>> decoding(Limits()).check({"seed": 1, "beam": 2}, "decoding")
    '{"beam": 2, "seed": 1}'
    """
    real = number(-1e6, 1e6)
    settings = object_of(
        {
            "beam": integer(1, limits.beam),
            "n_best": integer(1, limits.n_best),
            "max_length": integer(1, limits.new_tokens),
            "min_length": integer(0),
            "top_k": integer(0),
            "no_repeat_ngram": integer(0),
            "seed": integer(0),
            "temperature": real,
            "top_p": real,
            "min_p": real,
            "typical_p": real,
            "repetition_penalty": real,
            "length_penalty": real,
            "sample": BOOLEAN,
            "prefix": string(MAX_SETTING_CHARS),
            "stop": stop_strings(limits),
        },
        refusal=_no_settings,
    )

    def check(value: object, param: str) -> str:
        if value is None:
            return ""
        settings.check(value, param)
        return json.dumps(value, sort_keys=True) if value else ""

    schema = described(nullable(settings), "See docs/decoding.md.").schema
    return Field(schema, check)


def _no_settings(param: str) -> RequestError:
    return RequestError(
        "request.decoding_not_an_object", "{param} must be an object; see docs/decoding.md", param
    )


def stop_strings(limits: Limits) -> Field:
    """A list of stop strings."""
    return strings(limits.stop, MAX_SETTING_CHARS)


async def read_form_or_object(
    request: Request, limits: Limits, integers: Collection[str]
) -> dict[str, Any]:
    """The same, or the fields of a form: strings, and integers under these names."""
    body = await read_body(request, limits, (JSON, FORM))
    return json_object(body) if media_type(request) == JSON else _form(body, integers)


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
        raise RequestError(
            "request.form",
            "the form must have 1 to {max_form_fields} fields in UTF-8 with different "
            "names, percent-encoded; correct it",
            max_form_fields=MAX_FORM_FIELDS,
        )
    return {
        key: int(value) if key in integers and re.fullmatch("[0-9]{1,9}", value) else value
        for key, value in found.items()
    }


def as_payloads(inputs: Sequence[str] | Sequence[list[int]]) -> tuple[list[str], dict[str, Any]]:
    """Texts, or token ids as JSON, for a computing process, and the keys of their message.

    >>> as_payloads(["a"]), as_payloads([[1, 2]])
    ((['a'], {}), (['[1, 2]'], {'ids': True}))
    """
    found = [each if isinstance(each, str) else json.dumps(each) for each in inputs]
    return found, {} if isinstance(inputs[0], str) else {"ids": True}


def deadline_seconds(request: Request, limits: Limits) -> float:
    """The time that a request has, from its header or the limit."""
    given = header(request.scope["headers"], DEADLINE_HEADER.encode())
    if given is None:
        return limits.request_seconds
    if not (given.isascii() and given.isdecimal() and len(given) < 10):
        raise RequestError(
            "request.deadline_not_a_number",
            "{deadline_header} must be a number of milliseconds; correct it",
            deadline_header=DEADLINE_HEADER,
        )
    field = integer(1, limits.max_deadline_ms)
    return float(field.check(int(given), DEADLINE_HEADER)) / 1000
