"""What a page may ask of a model, read from JSON that anybody may have written."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from jumok.errors import InputError
from jumok.interpret.schema import BlockName, Muted

MAX_BODY_BYTES = 64 * 2**10  # bytes
MAX_MUTED = 4096


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """What a page is told of the model behind it; `traces`: whether it can be asked."""

    title: str
    task: str | None
    kind: str
    pairs: bool = False  # reads two texts, separated by TAB
    writes: bool = False
    traces: bool = False
    max_length: int = 0


@dataclass(frozen=True)
class TraceRequest:
    """A trace that is wanted, of one text as a rule: see `jumok.trace`."""

    texts: tuple[str, ...]
    target: str | None = None
    decode: Mapping[str, object] | None = None
    mute: tuple[Muted, ...] = ()

    @classmethod
    def of_json(cls, content: Mapping[str, object]) -> "TraceRequest":
        """A request as it came. Raises InputError for what is missing, unknown or of another kind.

        >>> TraceRequest.of_json({"text": "겨울", "mute": [["encoder", 0, 2]]}).mute
        (('encoder', 0, 2),)
        """
        check_keys(content, ("text", "target", "decode", "mute"))
        text, target = _text(content), content.get("target")
        if target is not None and not isinstance(target, str):
            raise InputError("target is no string; send one, or null")
        decode, mute = _decode(content.get("decode")), _mute(content.get("mute") or [])
        return cls((text,), target, decode, mute)


def read_object(body: bytes) -> dict[str, object]:
    """A JSON object. Raises InputError for anything else.

    >>> read_object(b'{"text": "a"}')
    {'text': 'a'}
    """
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise InputError("the request is not JSON; send an object") from None
    if not isinstance(content, dict):
        raise InputError("the request is not a JSON object; send one")
    return content


def read_text(content: Mapping[str, object]) -> str:
    """The text of a request that has nothing else. Raises InputError.

    >>> read_text({"text": "겨울"})
    '겨울'
    """
    check_keys(content, ("text",))
    return _text(content)


def check_keys(content: Mapping[str, object], known: Sequence[str]) -> None:
    """Raises InputError for a key that is not known."""
    unknown = next((key for key in content if key not in known), None)
    if unknown is not None:
        raise InputError(f"unknown key {ascii(unknown)[:40]}; known are {', '.join(known)}")


def _text(content: Mapping[str, object]) -> str:
    text = content.get("text")
    if not isinstance(text, str):
        raise InputError("text is missing or no string; send one")
    return text


def _decode(value: object) -> dict[str, object] | None:
    if value is None:
        return None
    if not isinstance(value, dict) or not all(
        isinstance(setting, bool | int | float | str) for setting in value.values()
    ):
        raise InputError("decode is no object of plain values; send one such as {'beam': 4}")
    return value


def _mute(value: object) -> tuple[Muted, ...]:
    if not isinstance(value, list) or len(value) > MAX_MUTED:
        raise InputError(f"mute is no list of at most {MAX_MUTED} heads; send one")
    return tuple(head_from_json(each) for each in value)


def head_from_json(value: object) -> Muted:
    """One head: block, layer, head.

    >>> head_from_json(["decoder", 1, 0])
    ('decoder', 1, 0)
    """
    if isinstance(value, list) and len(value) == 3:
        block, layer, head = value
        if block in get_args(BlockName) and _is_number(layer) and _is_number(head):
            return block, layer, head
    raise InputError(
        f"{ascii(value)[:40]} is no head; write block, layer and head, the block being one of "
        f"{', '.join(get_args(BlockName))} and the numbers counting from 0"
    )


def _is_number(value: object) -> bool:
    return type(value) is int and value >= 0
