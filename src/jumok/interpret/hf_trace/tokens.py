"""The tokens of a transformers model: pieces, and their spans in the text.

Shapes: T tokens of a sequence.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from jumok.interpret.schema import Tokens
from jumok.interpret.tokens import align_spans, described_tokens
from jumok.text.offsets import Span


class HFEncoding(Protocol):
    """The result of a transformers tokenizer for a text, or for a pair."""

    def __getitem__(self, name: str) -> Any:
        """The list of this name: "input_ids", "offset_mapping" and others."""

    def __contains__(self, name: object) -> bool:
        """Whether there is a list of this name."""

    def sequence_ids(self) -> list[int | None]:
        """For a pair, the index of the text of each token; None: a special token."""


class HFTokenizer(Protocol):
    """The methods of a transformers tokenizer that a trace needs."""

    all_special_ids: list[int]
    special_tokens_map: Mapping[str, object]  # "unk_token": "[UNK]" and others
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
        """The ids of a text or a pair, with special tokens, and their offsets."""

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        """The piece of each id."""

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> str:
        """The decoded text."""


def hf_tokens(
    ids: Sequence[int],
    real: Sequence[int],
    tokenizer: HFTokenizer | None,
    text: str | None,
    special: Iterable[int] = (),
) -> Tokens:
    """The tokens of a sequence of ids (T) for the header, with padding on the right.

    Spans are the tokenizer's offsets if it encodes the text to these ids (a TAB separates a pair),
    else they are aligned with the decoded pieces. Without a text it is decoded; without a tokenizer
    the ids are the text, and those in `special` have no text.

    >>> hf_tokens([0, 21, 5], [1, 1, 0], None, None, special=[0]).text
    '21'
    """
    if tokenizer is None:
        return _numbered(ids, real, set(special))
    n, special_ids = sum(real), _special_ids(tokenizer)
    positions = [index for index in range(n) if ids[index] not in special_ids]
    kept = [ids[index] for index in positions]
    if text is None:
        text = tokenizer.decode(kept, skip_special_tokens=False)
    offsets = _offsets(tokenizer, text, ids[:n])
    pieces = [str(piece) for piece in tokenizer.convert_ids_to_tokens(list(ids))]
    if offsets is None:
        kept_pieces = [pieces[index] for index in positions]
        aligned = align_spans(text, kept, _BatchDecoder(tokenizer), kept_pieces)
        known = dict(zip(positions, aligned, strict=True))
    else:
        known = {index: offsets[index] for index in positions}
    return described_tokens(text, pieces, ids, list(map(known.get, range(len(ids)))), real)


def _special_ids(tokenizer: HFTokenizer) -> set[int]:
    """The ids of [CLS], </s>, <pad> and other special tokens; [UNK] and [MASK] stand for text.

    A token that is both unk_token and eos_token, as in GPT-2, is special.
    """
    named = tokenizer.special_tokens_map
    text_like = {str(named[name]) for name in ("unk_token", "mask_token") if name in named}
    special = ("bos_token", "eos_token", "pad_token", "cls_token", "sep_token")
    text_like -= {str(named[name]) for name in special if name in named}
    ids = list(tokenizer.all_special_ids)
    pieces = tokenizer.convert_ids_to_tokens(ids)
    return {id_ for id_, piece in zip(ids, pieces, strict=True) if str(piece) not in text_like}


class _BatchDecoder:
    """A tokenizer as a `Detokenizer`, which decodes batches."""

    def __init__(self, tokenizer: HFTokenizer) -> None:
        self._tokenizer = tokenizer

    def decode_batch(self, batch: Iterable[Iterable[int]]) -> list[str]:
        """The decoded texts of rows of ids."""
        return [self._tokenizer.decode(list(ids), skip_special_tokens=True) for ids in batch]


def _offsets(tokenizer: HFTokenizer, text: str, ids: Sequence[int]) -> list[Span] | None:
    """The tokenizer's offsets, if it is fast and encodes the text to these ids."""
    if not tokenizer.is_fast:
        return None
    first, tab, second = text.partition("\t")
    found = tokenizer(first, second if tab else None, return_offsets_mapping=True)
    if list(found["input_ids"]) != list(ids):
        return None
    starts = {None: 0, 0: 0, 1: len(first) + 1}  # of the parts of a pair
    spans = zip(found["offset_mapping"], found.sequence_ids(), strict=True)
    return [
        _without_leading_space(text, begin + starts[part], end + starts[part])
        for (begin, end), part in spans
    ]


def _without_leading_space(text: str, begin: int, end: int) -> Span:
    """A span without the leading white space of byte-level pieces."""
    inside = text[begin:end]
    return (begin + len(inside) - len(inside.lstrip()), end) if inside.strip() else (begin, end)


def _numbered(ids: Sequence[int], real: Sequence[int], special: set[int]) -> Tokens:
    """Tokens of ids without a tokenizer: the text is the numbers."""
    text, spans = "", list[Span | None]([None] * len(ids))
    for index, id_ in enumerate(ids[: sum(real)]):
        if id_ not in special:
            text += " " * bool(text)
            spans[index] = (len(text), len(text) + len(str(id_)))
            text += str(id_)
    return described_tokens(text, [str(id_) for id_ in ids], ids, spans, real)
