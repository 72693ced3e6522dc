"""The requests of a page, parsed from untrusted JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from jumok.errors import TraceError
from jumok.interpret.schema import BlockName, Muted
from jumok.web.requests import check_keys

MAX_MUTED = 4096


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """The model's description for the page; `traces`: whether it makes new traces."""

    title: str
    task: str | None
    kind: str
    pairs: bool = False  # the input is two texts, separated by TAB
    writes: bool = False
    traces: bool = False
    max_length: int = 0
    examples: tuple[str, ...] = ()  # inputs to try
    decode: Mapping[str, object] | None = None  # the decoding settings that a request may override
    checkpoints: tuple[str, ...] = ()  # of the run, oldest first; a request may name one
    in_page: bool = False  # computed by a saved page itself, which has no samples and effects


@dataclass(frozen=True)
class TraceRequest:
    """A requested trace, usually of one text; see `jumok.trace`."""

    texts: tuple[str, ...]
    target: str | None = None
    decode: Mapping[str, object] | None = None
    mute: tuple[Muted, ...] = ()
    checkpoint: str | None = None  # the name of one of the run; None: its final weights

    @classmethod
    def of_json(cls, content: Mapping[str, object]) -> "TraceRequest":
        """A request from JSON. Raises InputError for missing, unknown or invalid fields.

        >>> TraceRequest.of_json({"text": "겨울", "mute": [["encoder", 0, 2]]}).mute
        (('encoder', 0, 2),)
        """
        check_keys(content, ("text", "target", "decode", "mute", "checkpoint"))
        text, target = _parse_text(content), _parse_optional_text(content, "target")
        decode, mute = _parse_decode(content.get("decode")), _parse_mute(content.get("mute") or [])
        return cls((text,), target, decode, mute, _parse_optional_text(content, "checkpoint"))


@dataclass(frozen=True)
class EffectsRequest:
    """The effect of each head on the answer of a trace: muted, or with its output for `other`.

    With `hidden` and `other`, the effect of each hidden state instead, by layer and token.
    """

    trace: TraceRequest
    other: str | None = None
    hidden: bool = False

    @classmethod
    def of_json(cls, content: Mapping[str, object]) -> "EffectsRequest":
        """A request from JSON: that of a trace, `other` and `hidden`. Raises InputError.

        >>> EffectsRequest.of_json({"text": "겨울", "other": "여름"}).other
        '여름'
        """
        other, hidden = _parse_optional_text(content, "other"), content.get("hidden", False)
        if not isinstance(hidden, bool) or (hidden and other is None):
            raise TraceError(
                "page.hidden_without_other",
                "hidden must be true or false, and true only with another text; add other",
            )
        trace = {key: value for key, value in content.items() if key not in ("other", "hidden")}
        return cls(TraceRequest.of_json(trace), other, hidden)


def read_text(content: Mapping[str, object]) -> str:
    """The text of a request with no other field. Raises InputError.

    >>> read_text({"text": "겨울"})
    '겨울'
    """
    check_keys(content, ("text",))
    return _parse_text(content)


def _parse_text(content: Mapping[str, object]) -> str:
    text = content.get("text")
    if not isinstance(text, str):
        raise TraceError("page.text_not_a_string", "text must be a string")
    return text


def _parse_optional_text(content: Mapping[str, object], key: str) -> str | None:
    text = content.get(key)
    if text is not None and not isinstance(text, str):
        raise TraceError("page.not_a_string_or_null", "{key} must be a string or null", key=key)
    return text


def _parse_decode(value: object) -> dict[str, object] | None:
    if value is None:
        return None
    if not isinstance(value, dict) or not all(
        isinstance(setting, bool | int | float | str) for setting in value.values()
    ):
        raise TraceError(
            "page.decode_not_plain", 'decode must be an object of plain values such as "beam": 4'
        )
    return value


def _parse_mute(value: object) -> tuple[Muted, ...]:
    if not isinstance(value, list) or len(value) > MAX_MUTED:
        raise TraceError(
            "page.mute_not_a_list",
            "mute must be a list of at most {max_muted} heads",
            max_muted=MAX_MUTED,
        )
    return tuple(head_from_json(each) for each in value)


def head_from_json(value: object) -> Muted:
    """One head: block, layer, head.

    >>> head_from_json(["decoder", 1, 0])
    ('decoder', 1, 0)
    """
    if isinstance(value, list) and len(value) == 3:
        block, layer, head = value
        if block in get_args(BlockName) and _is_index(layer) and _is_index(head):
            return block, layer, head
    raise TraceError(
        "page.head_not_a_list",
        "a head must be [block, layer, head] with a block of {blockname} and numbers from 0, got "
        "{ascii}",
        blockname=", ".join(get_args(BlockName)),
        ascii=ascii(value)[:40],
    )


def _is_index(value: object) -> bool:
    return type(value) is int and value >= 0
