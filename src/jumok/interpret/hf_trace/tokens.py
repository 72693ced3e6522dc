"""The tokens of a model of transformers: pieces, and the places they stand for in the text.

Shapes: T tokens of a sequence.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from jumok.interpret.eojeol import NO_EOJEOL, eojeol_at, eojeol_spans
from jumok.interpret.schema import Tokens
from jumok.interpret.tokens import align_spans
from jumok.text.offsets import Span


class HFEncoding(Protocol):
    """What a tokeniser of transformers makes of a text, or of a pair."""

    def __getitem__(self, name: str) -> Any:
        """The lists of this name: "input_ids", "offset_mapping" and the like."""

    def __contains__(self, name: object) -> bool:
        """Whether there are lists of this name."""

    def sequence_ids(self) -> list[int | None]:
        """Of a pair, which text each token is from; None: of neither."""


class HFTokenizer(Protocol):
    """What is asked of a tokeniser of transformers."""

    all_special_ids: list[int]
    special_tokens_map: Mapping[str, object]  # "unk_token": "[UNK]" and the like
    is_fast: bool
    pad_token_id: int | None

    def __call__(
        self,
        text: str | None = None,
        text_pair: str | None = None,
        *,
        text_target: str | None = None,
        return_offsets_mapping: bool = False,
    ) -> HFEncoding:
        """The ids of a text or a pair, framed, and the characters each stands for."""

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        """The piece of each id."""

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> str:
        """The text of ids."""


def hf_tokens(
    ids: Sequence[int],
    real: Sequence[int],
    tokenizer: HFTokenizer | None,
    text: str | None,
    special: Iterable[int] = (),
) -> Tokens:
    """A row of ids (T) as the header has it, padding on the right.

    Spans are the tokeniser's own offsets where it makes these very ids of the text (a TAB parts a
    pair), else what the pieces spell. Without a text it is what they spell; without a tokeniser
    the numbers, and those in `special` stand for no text.

    >>> hf_tokens([0, 21, 5], [1, 1, 0], None, None, special=[0]).text
    '21'
    """
    if tokenizer is None:
        return _numbered(ids, real, set(special))
    n, marked = sum(real), _special_ids(tokenizer)
    inside = [place for place in range(n) if ids[place] not in marked]
    kept = [ids[place] for place in inside]
    if text is None:
        text = tokenizer.decode(kept, skip_special_tokens=False)
    own = _offsets(tokenizer, text, ids[:n])
    pieces = [str(piece) for piece in tokenizer.convert_ids_to_tokens(list(ids))]
    if own is None:
        named = [pieces[place] for place in inside]
        spelled = align_spans(text, kept, _Decoding(tokenizer), named)
        spans = dict(zip(inside, spelled, strict=True))
    else:
        spans = {place: own[place] for place in inside}
    return _tokens(text, pieces, ids, real, spans)


def _special_ids(tokenizer: HFTokenizer) -> set[int]:
    """The ids of [CLS], </s>, <pad> and the like; [UNK] and [MASK] stand for something.

    Of GPT-2 one token is the unknown one and ends texts, too: that is special.
    """
    named = tokenizer.special_tokens_map
    meant = {str(named[name]) for name in ("unk_token", "mask_token") if name in named}
    framing = ("bos_token", "eos_token", "pad_token", "cls_token", "sep_token")
    meant -= {str(named[name]) for name in framing if name in named}
    ids = list(tokenizer.all_special_ids)
    pieces = tokenizer.convert_ids_to_tokens(ids)
    return {id_ for id_, piece in zip(ids, pieces, strict=True) if str(piece) not in meant}


class _Decoding:
    """A tokeniser that decodes whole batches."""

    def __init__(self, tokenizer: HFTokenizer) -> None:
        self._tokenizer = tokenizer

    def decode_batch(self, batch: Iterable[Iterable[int]]) -> list[str]:
        """The texts of many rows of ids."""
        return [self._tokenizer.decode(list(ids), skip_special_tokens=True) for ids in batch]


def _offsets(tokenizer: HFTokenizer, text: str, ids: Sequence[int]) -> list[Span] | None:
    """The tokeniser's offsets, if it has some and makes these ids of the text."""
    if not tokenizer.is_fast:
        return None
    first, tab, second = text.partition("\t")
    found = tokenizer(first, second if tab else None, return_offsets_mapping=True)
    if list(found["input_ids"]) != list(ids):
        return None
    starts = {None: 0, 0: 0, 1: len(first) + 1}  # of the parts of a pair
    spans = zip(found["offset_mapping"], found.sequence_ids(), strict=True)
    return [
        _trimmed(text, begin + starts[part], end + starts[part]) for (begin, end), part in spans
    ]


def _trimmed(text: str, begin: int, end: int) -> Span:
    """A span without the white space before it, which byte-level pieces hold."""
    inside = text[begin:end]
    return (begin + len(inside) - len(inside.lstrip()), end) if inside.strip() else (begin, end)


def _numbered(ids: Sequence[int], real: Sequence[int], special: set[int]) -> Tokens:
    """Ids of which nobody knows the pieces: the text is their numbers."""
    text, spans = "", {}
    for place, id_ in enumerate(ids[: sum(real)]):
        if id_ not in special:
            text += " " * bool(text)
            spans[place] = (len(text), len(text) + len(str(id_)))
            text += str(id_)
    return _tokens(text, [str(id_) for id_ in ids], ids, real, spans)


def _tokens(
    text: str,
    pieces: Sequence[str],
    ids: Sequence[int],
    real: Sequence[int],
    known: Mapping[int, Span],
) -> Tokens:
    """Everything in lists of one length; what has no place stands where the next piece begins."""
    spans: list[Span] = []
    begin = len(text)
    for place in reversed(range(len(ids))):
        begin = known[place][0] if place in known else begin
        spans.append(known.get(place, (begin, begin)))
    spans.reverse()
    eojeols = eojeol_spans(text)
    return Tokens(
        text=text,
        pieces=tuple(pieces),
        ids=tuple(map(int, ids)),
        spans=tuple(spans),
        special=tuple(int(place not in known) for place in range(len(ids))),
        real=tuple(map(int, real)),
        words=tuple(
            eojeol_at(eojeols, span, pieces[place]) if place in known else NO_EOJEOL
            for place, span in enumerate(spans)
        ),
    )
