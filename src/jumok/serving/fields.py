"""The fields of requests: what each may contain, as a check and as the schema of /openapi.json.

A limit is given once, to the function that makes the field.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from jumok.serving.limits import Limits
from jumok.web.errors import RequestError
from jumok.web.requests import check_keys

Schema = dict[str, Any]
MAX_INTEGER = 2**31 - 1


@dataclass(frozen=True)
class Field:
    """A value of a request.

    `check` returns the value that is used, or raises RequestError with the name of the parameter.

    >>> field = integer(1, 16)
    >>> field.schema
    {'type': 'integer', 'minimum': 1, 'maximum': 16}
    >>> field.check(2, "beam")
    2
    """

    schema: Schema
    check: Callable[[object, str], Any]


ANYTHING = Field({}, lambda value, _: value)  # ignored
MODEL = Field(  # checked against the loaded models
    {"type": ["string", "null"], "description": "Null or left out: the first one."},
    lambda value, _: value,
)


def text(limits: Limits) -> Field:
    """A text that is not too long."""
    high = limits.text_bytes

    def check(value: object, param: str) -> str:
        if not isinstance(value, str):
            raise RequestError(
                "request.not_a_string", "{param} must be a string; see docs/serving.md", param
            )
        if len(value) > high or len(value.encode()) > high:
            raise RequestError(
                "request.string_too_long",
                "{param} must have at most {high} bytes; shorten it",
                param,
                high=high,
            )
        return value

    return Field({"type": "string", "maxLength": high}, check)


def texts(limits: Limits) -> Field:
    """A list of 1 or more texts."""
    item, high = text(limits), limits.texts

    def check(value: object, param: str) -> list[str]:
        if not isinstance(value, list) or not 1 <= len(value) <= high:
            raise RequestError(
                "request.not_a_list",
                "{param} must be a list of 1 to {high} strings",
                param,
                high=high,
            )
        return [item.check(each, f"{param}[{number}]") for number, each in enumerate(value)]

    return Field({"type": "array", "items": item.schema, "minItems": 1, "maxItems": high}, check)


def text_or_texts(limits: Limits) -> Field:
    """One text, or a list; the value is what was given."""
    one, several = text(limits), texts(limits)

    def check(value: object, param: str) -> str | list[str]:
        return (one if isinstance(value, str) else several).check(value, param)  # type: ignore[no-any-return]

    return Field({"anyOf": [one.schema, several.schema]}, check)


def texts_or_ids(limits: Limits) -> Field:
    """One text or several, or the token ids of one or several; the value is a list of them.

    >>> field = texts_or_ids(Limits())
    >>> field.check("a", ""), field.check([1, 2], ""), field.check([[1], [2]], "")
    (['a'], [[1, 2]], [[1], [2]])
    """
    one, several, ids, high = text(limits), texts(limits), token_ids(limits), limits.texts

    def check(value: object, param: str) -> list[str] | list[list[int]]:
        if isinstance(value, str):
            return [one.check(value, param)]
        if isinstance(value, list) and value and type(value[0]) is int:
            return [ids.check(value, param)]
        if isinstance(value, list) and len(value) <= high and isinstance((value or "-")[0], list):
            return [ids.check(each, f"{param}[{n}]") for n, each in enumerate(value)]
        return several.check(value, param)  # type: ignore[no-any-return]

    lists = {"type": "array", "items": ids.schema, "minItems": 1, "maxItems": high}
    return Field({"anyOf": [one.schema, several.schema, ids.schema, lists]}, check)


def token_ids(limits: Limits) -> Field:
    """The token ids of a text; the computing process checks that the model has them."""
    item, high = integer(0), limits.text_bytes // 4

    def check(value: object, param: str) -> list[int]:
        if not isinstance(value, list) or not 1 <= len(value) <= high:
            raise RequestError(
                "request.not_token_ids",
                "{param} must be a list of 1 to {high} token ids",
                param,
                high=high,
            )
        return [item.check(each, param) for each in value]

    return Field({"type": "array", "items": item.schema, "minItems": 1, "maxItems": high}, check)


def batch(limits: Limits) -> Field:
    """One text, or a list of texts and of lists of texts, as of text-embeddings-inference."""
    one, item, high = text(limits), text_or_texts(limits), limits.texts

    def check(value: object, param: str) -> str | list[Any]:
        if isinstance(value, str):
            return str(one.check(value, param))
        if not isinstance(value, list) or not 1 <= len(value) <= high:
            raise RequestError(
                "request.not_a_string_or_list",
                "{param} must be a string or a list of at most {high}",
                param,
                high=high,
            )
        return [item.check(each, param) for each in value]

    several = {"type": "array", "items": item.schema, "minItems": 1, "maxItems": high}
    return Field({"anyOf": [one.schema, several]}, check)


def string(high: int) -> Field:
    """A string of a setting."""

    def check(value: object, param: str) -> str:
        if not isinstance(value, str) or len(value) > high:
            raise RequestError(
                "request.text_too_long",
                "{param} must be a string of at most {high} characters",
                param,
                high=high,
            )
        return value

    return Field({"type": "string", "maxLength": high}, check)


def strings(high: int, characters: int) -> Field:
    """A list of at most `high` strings, none of them empty."""

    def check(value: object, param: str) -> list[str]:
        if not isinstance(value, list) or len(value) > high:
            raise RequestError(
                "request.too_many_strings",
                "{param} must be at most {high} strings; remove some",
                param,
                high=high,
            )
        for each in value:
            if not isinstance(each, str) or not 1 <= len(each) <= characters:
                raise RequestError(
                    "request.string_lengths",
                    "{param} must have strings of 1 to {characters} characters",
                    param,
                    characters=characters,
                )
        return value

    item = {"type": "string", "minLength": 1, "maxLength": characters}
    return Field({"type": "array", "items": item, "maxItems": high}, check)


def one_or_several(field: Field) -> Field:
    """A list as of `field`, or one of its items."""

    def check(value: object, param: str) -> Any:
        return field.check([value] if isinstance(value, str) else value, param)

    return Field({"anyOf": [field.schema["items"], field.schema]}, check)


def integer(low: int, high: int = MAX_INTEGER) -> Field:
    """An integer from `low` to `high`."""

    def check(value: object, param: str) -> int:
        if type(value) is not int or not low <= value <= high:
            raise RequestError(
                "request.not_an_integer",
                "{param} must be an integer from {low} to {high}; change it",
                param,
                low=low,
                high=high,
            )
        return value

    return Field({"type": "integer", "minimum": low, "maximum": high}, check)


def number(low: float, high: float) -> Field:
    """A number from `low` to `high`."""

    def check(value: object, param: str) -> float:
        real = isinstance(value, int | float) and not isinstance(value, bool)
        if not real or not low <= value <= high:  # type: ignore[operator]
            raise RequestError(
                "request.not_a_number",
                "{param} must be a number from {low:g} to {high:g}; change it",
                param,
                low=low,
                high=high,
            )
        return float(value)  # type: ignore[arg-type]

    return Field({"type": "number", "minimum": low, "maximum": high}, check)


def _boolean(value: object, param: str) -> bool:
    if not isinstance(value, bool):
        raise RequestError(
            "request.not_a_boolean", "{param} must be true or false; change it", param
        )
    return value


BOOLEAN = Field({"type": "boolean"}, _boolean)


def choice(*values: str) -> Field:
    """One of several strings."""

    def check(value: object, param: str) -> str:
        if value not in values:
            raise RequestError(
                "request.unknown_value",
                "{param} must be one of {values}; change it",
                param,
                values=", ".join(values),
            )
        return str(value)

    return Field({"enum": list(values)}, check)


def _unsupported(param: str) -> RequestError:
    return RequestError("request.unsupported_key", "{param} is not supported; leave it out", param)


def only(*values: object, refusal: Callable[[str], RequestError] = _unsupported) -> Field:
    """These values and no others."""

    def check(value: object, param: str) -> object:
        for each in values:
            if value == each and isinstance(value, bool) == isinstance(each, bool):
                return value
        raise refusal(param)

    return Field({"enum": list(values)}, check)


def nullable(field: Field) -> Field:
    """The same, or null."""

    def check(value: object, param: str) -> Any:
        return None if value is None else field.check(value, param)

    kind = field.schema.get("type")
    if "enum" in field.schema:
        return Field({"enum": [*field.schema["enum"], None]}, check)
    if isinstance(kind, str):
        return Field({**field.schema, "type": [kind, "null"]}, check)
    if "anyOf" in field.schema:
        return Field({"anyOf": [*field.schema["anyOf"], {"type": "null"}]}, check)
    raise AssertionError(field.schema)


def described(field: Field, description: str) -> Field:
    """The same with a description."""
    return Field({**field.schema, "description": description}, field.check)


def _no_object(param: str) -> RequestError:
    return RequestError(
        "request.not_an_object", "{param} must be an object; see docs/serving.md", param
    )


def object_of(
    fields: Mapping[str, Field],
    required: Collection[str] = (),
    *,
    refusal: Callable[[str], RequestError] = _no_object,
) -> Field:
    """An object without other keys; the value has the checked values of the given ones.

    >>> field = object_of({"texts": texts(Limits()), "model": MODEL}, required=["texts"])
    >>> field.check({"texts": ["a"]}, "")
    {'texts': ['a']}
    >>> field.check({"model": None}, "")
    Traceback (most recent call last):
    jumok.web.errors.RequestError: texts must be a list of 1 to 2048 strings
    """

    def check(value: object, param: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise refusal(param)
        check_keys(value, fields)
        prefix = f"{param}." if param else ""
        return {
            key: field.check(value.get(key), f"{prefix}{key}")
            for key, field in fields.items()
            if key in value or key in required
        }

    schema: Schema = {"type": "object", "required": list(required)}
    schema["properties"] = {key: field.schema for key, field in fields.items()}
    return Field({**schema, "additionalProperties": False}, check)


def any_of(*fields: Field) -> Field:
    """The description of a request that a route passes on to one of these checks."""
    return Field({"anyOf": [field.schema for field in fields]}, lambda value, _: value)


def reply_of(**properties: Schema) -> Schema:
    """The schema of a reply with these keys and no others."""
    return {
        "type": "object",
        "required": list(properties),
        "properties": properties,
        "additionalProperties": False,
    }
