"""What stands around texts: [CLS] and [SEP] of BERT, </s> of T5, nothing around GPT-2's.

A frame says where one or two texts go and which special pieces stand between them; when the row
would be too long, the longer text loses pieces first.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jumok.errors import InputError


@dataclass(frozen=True)
class Framed:
    """A row as the model takes it; `segments` are transformers' token_type_ids (0 where none)."""

    ids: list[int]
    segments: list[int]


@dataclass(frozen=True)
class Slot:
    """The place of a text (0 the first, 1 the second) and the segment its pieces belong to."""

    text: Literal[0, 1]
    segment: int = 0


@dataclass(frozen=True)
class Fixed:
    """A special piece (one that has several ids is written out) and its segment."""

    ids: tuple[int, ...]
    segment: int = 0


Part = Slot | Fixed


@dataclass(frozen=True)
class Frame:
    """How a row is built of one text or two.

    >>> cls, sep = Fixed((2,)), Fixed((3,))
    >>> bert = Frame((cls, Slot(0), sep), (cls, Slot(0), sep, Slot(1, 1), Fixed((3,), 1)))
    >>> bert.frame([10, 11, 12, 13], [20], max_length=7)
    Framed(ids=[2, 10, 11, 12, 3, 20, 3], segments=[0, 0, 0, 0, 0, 1, 1])
    """

    single: tuple[Part, ...] = (Slot(0),)
    pair: tuple[Part, ...] = (Slot(0), Slot(1, 1))
    side: Literal["right", "left"] = "right"  # where a text that is too long loses pieces
    evenly: bool = False  # how two texts share what is lost: as `_fair` or as `_even` says

    def frame(
        self, ids: Sequence[int], pair: Sequence[int] | None, max_length: int | None
    ) -> Framed:
        """The row of one text or two, of at most `max_length` ids (None: of any length)."""
        parts = self.single if pair is None else self.pair
        if not parts:
            raise InputError("this tokeniser frames no pairs of texts; give one text")
        texts = (ids, pair or ())
        if max_length is not None:
            texts = self._shortened(texts, pair is not None, max_length - fixed_length(parts))
        row: list[int] = []
        segments: list[int] = []
        for part in parts:
            new = texts[part.text] if isinstance(part, Slot) else part.ids
            row.extend(new)
            segments.extend([part.segment] * len(new))
        return Framed(row, segments)

    def _shortened(
        self, texts: tuple[Sequence[int], Sequence[int]], paired: bool, room: int
    ) -> tuple[Sequence[int], Sequence[int]]:
        first, second = texts
        if room < 0:
            raise InputError(
                f"max_length leaves {room} places beside the special pieces; give at least "
                f"{-room} more"
            )
        if len(first) + len(second) <= room:
            return texts
        share = _even if self.evenly else _fair
        n_first, n_second = share(len(first), len(second), room) if paired else (room, 0)
        return self._cut(first, n_first), self._cut(second, n_second)

    def _cut(self, ids: Sequence[int], length: int) -> Sequence[int]:
        return ids[:length] if self.side == "right" else ids[max(0, len(ids) - length) :]


def fixed_length(parts: Iterable[Part]) -> int:
    """How many ids these parts have beside the texts."""
    return sum(len(part.ids) for part in parts if isinstance(part, Fixed))


def processor_parts(state: Mapping[str, Any] | None) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """The parts for one text and for two that the `post_processor` of a tokenizer.json tells.

    Raises InputError for a processor that is not known or contradicts itself.
    """
    plain: tuple[Part, ...] = (Slot(0),)
    match state:
        case None | {"type": "ByteLevel"}:  # which moves offsets and nothing else
            return plain, (Slot(0), Slot(1, 1))
        case {"type": "Sequence", "processors": list(inner)}:
            telling = [one for one in inner if one != state and one.get("type") != "ByteLevel"]
            if len(telling) > 1:
                raise InputError(
                    "the post_processor frames texts twice; use a tokeniser that does once"
                )
            return processor_parts(telling[0] if telling else None)
        case {"type": "BertProcessing", "cls": [_, int(cls)], "sep": [_, int(sep)]}:
            before, between = Fixed((cls,)), Fixed((sep,))
            return (before, Slot(0), between), (
                *(before, Slot(0), between),
                *(Slot(1, 1), Fixed((sep,), 1)),
            )
        case {"type": "RobertaProcessing", "cls": [_, int(cls)], "sep": [_, int(sep)]}:
            return double_sep(cls, sep)
        case {"type": "TemplateProcessing", "single": list(single), "pair": list(pair)}:
            pieces = state.get("special_tokens")
            known = pieces if isinstance(pieces, dict) else {}
            return _template(single, known, (0,)), _template(pair, known, (0, 1))
    raise InputError(
        f"the post_processor {json.dumps(state)[:80]} is none that is known (BertProcessing, "
        "RobertaProcessing, TemplateProcessing, ByteLevel); use a tokeniser with one of these"
    )


def double_sep(cls: int, sep: int) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """The parts of RoBERTa and XLM-R: <s> A </s>, and <s> A </s></s> B </s>, all one segment."""
    before, after = Fixed((cls,)), Fixed((sep,))
    return (before, Slot(0), after), (before, Slot(0), after, after, Slot(1), after)


def _template(
    parts: Iterable[object], known: Mapping[str, Any], texts: tuple[int, ...]
) -> tuple[Part, ...]:
    found: list[Part] = []
    for part in parts:
        match part:
            case {"Sequence": {"id": "A" | "B" as name, "type_id": int(segment)}}:
                found.append(Slot(0 if name == "A" else 1, segment))
            case {"SpecialToken": {"id": str(name), "type_id": int(segment)}} if name in known:
                ids = known[name].get("ids") if isinstance(known[name], dict) else None
                if not isinstance(ids, list) or not all(isinstance(i, int) for i in ids):
                    raise InputError(f"the post_processor gives no ids for {name!r}; add them")
                found.append(Fixed(tuple(ids), segment))
            case _:
                raise InputError(
                    f"the post_processor has a part {json.dumps(part)[:80]} that it does not "
                    "explain; get the file again from its source"
                )
    if found and tuple(sorted(p.text for p in found if isinstance(p, Slot))) != texts:
        raise InputError("the post_processor does not place each text once; get the file again")
    return tuple(found)


def _fair(first: int, second: int, room: int) -> tuple[int, int]:
    """How many pieces two texts keep, as the tokenizers library shares them out.

    The longer text is cut down to the shorter one, then both alike; an odd place goes to the
    longer.

    >>> _fair(10, 4, 9), _fair(10, 8, 9)
    ((5, 4), (5, 4))
    """
    short = min(first, second)
    kept_long = short if short > room else max(short, room - short)
    kept_short = short
    if kept_short + kept_long > room:
        kept_short = room // 2
        kept_long = kept_short + room % 2
    return (kept_short, kept_long) if first <= second else (kept_long, kept_short)


def _even(first: int, second: int, room: int) -> tuple[int, int]:
    """How many pieces two texts keep, as the tokenisers of transformers in Python share them out.

    >>> _even(4, 10, 9), _even(9, 9, 9)
    ((4, 5), (5, 4))
    """
    lost = first + second - room
    difference = min(abs(first - second), lost)
    rest = lost - difference
    if first > second:
        return max(0, first - difference - rest // 2), max(0, second - (rest - rest // 2))
    return max(0, first - rest // 2), max(0, second - difference - (rest - rest // 2))
