"""Token sequences as a task gives them to its model, each token with its span in the text.

The task adds the special tokens to placeholders instead of ids: -1 for the first piece, -2 for the
second, and so on. Non-negative ids in the result are special tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from jumok.errors import InputError
from jumok.interpret.tokens import TokenSequence, align_spans, token_spans
from jumok.tasks.inputs.special_tokens import build_target
from jumok.tasks.inputs.text_encoder import (
    TextEncoder,
    TextInputs,
    token_type_ids,
    uses_token_types,
)
from jumok.tasks.pipeline.causal_generation import special_ids_around
from jumok.tasks.pipeline.fill_mask import encode_with_masks, split_at_masks
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.text.offsets import Span
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer, piece_or_empty

AddSpecialTokens = Callable[[Ragged, Ragged | None], Ragged]


@dataclass(frozen=True)
class _Encoded:
    """The ids and spans of a text without special tokens."""

    text: str
    ids: Sequence[int]
    spans: Sequence[Span]


def source_sequence(pipeline: Pipeline, text: str) -> TokenSequence:
    """The encoder input for a text, or for a pair separated by a TAB."""
    tokenizer, max_length = pipeline.vocabulary, pipeline.recipe.model.max_length
    task = pipeline.task
    if task.answer == "masks" and len(split_at_masks(text, tokenizer)) > 1:
        return _masked_sequence(text, tokenizer, max_length)
    texts = [_encode(text, tokenizer)] if task.generates else _encode_texts(pipeline, text)
    row = _with_special_tokens(
        texts, lambda rows, pairs: task.add_special_tokens(tokenizer, rows, pairs, max_length)
    )
    segments = _segments(pipeline, [*row.ids, tokenizer.padding_id])
    if segments is None:
        return row
    return replace(row, segments=segments[:-1], padding_segment=segments[-1])


def target_sequence(pipeline: Pipeline, target: str) -> TokenSequence:
    """The decoder input for a given target: [BOS] and all tokens but the end."""
    tokenizer, max_length = pipeline.target_vocabulary, pipeline.recipe.model.max_length
    row = _with_special_tokens(
        [_encode(target, tokenizer)], lambda rows, _: build_target(tokenizer, rows, max_length)
    )
    return replace(row, ids=row.ids[:-1], spans=row.spans[:-1])


def generated_sequence(pipeline: Pipeline, ids: Sequence[int]) -> TokenSequence:
    """The decoder input for generated ids: [BOS] and the ids.

    The last id at the model's max_length is never an input.
    """
    tokenizer, max_length = pipeline.target_vocabulary, pipeline.recipe.model.max_length
    text = tokenizer.decode(ids)
    row = [tokenizer.decoder_start_id, *ids]
    spans = [None, *_spans_in(text, ids, tokenizer)]
    return TokenSequence(
        text, row[:max_length], spans[:max_length], n_truncated=max(len(row) - max_length, 0)
    )


def start_sequence(tokenizer: Tokenizer) -> TokenSequence:
    """[BOS] only."""
    return TokenSequence("", [tokenizer.decoder_start_id], [None])


def continuation_sequence(pipeline: Pipeline, text: str, more: Sequence[int]) -> TokenSequence:
    """A text as a language model input, and the ids that continue it."""
    tokenizer = pipeline.vocabulary
    own = _encode(text, tokenizer)
    special, special_after = special_ids_around(pipeline, own.ids)
    before, whole = tokenizer.decode_batch([own.ids, [*own.ids, *more]])
    new = whole.removeprefix(before) if whole.startswith(before) else tokenizer.decode(more)
    start = len(text)
    return TokenSequence(
        text + new,
        [*special, *own.ids, *special_after, *more],
        [
            *[None] * len(special),
            *own.spans,
            *[None] * len(special_after),
            *(
                None if span is None else (start + span[0], start + span[1])
                for span in _spans_in(new, more, tokenizer)
            ),
        ],
    )


def _encode_texts(pipeline: Pipeline, text: str) -> list[_Encoded]:
    """The ids and spans of a text, or of the two texts of a pair."""
    lines = TextInputs.from_lines([text], pipeline.is_pair(text))
    first = _encode(lines.texts[0], pipeline.vocabulary)
    if lines.pairs is None:
        return [first]
    return [first, _encode(lines.pairs[0], pipeline.vocabulary)]


def _encode(text: str, tokenizer: Tokenizer) -> _Encoded:
    ids = tokenizer.encode(text)
    return _Encoded(text, ids, token_spans(text, ids, tokenizer))


def _with_special_tokens(texts: Sequence[_Encoded], add: AddSpecialTokens) -> TokenSequence:
    """One text, or the two of a pair, with special tokens."""
    pieces: list[int] = []
    spans: list[Span] = []
    rows: list[Ragged] = []
    joined = "\t".join(text.text for text in texts)
    start = 0
    for text in texts:
        n = len(pieces)
        rows.append(Ragged.from_lists([[-1 - n - i for i in range(len(text.ids))]]))
        pieces += text.ids
        spans += [(begin + start, end + start) for begin, end in text.spans]
        start += len(text.text) + 1
    row = [int(i) for i in add(rows[0], rows[1] if len(rows) > 1 else None)[0]]
    return TokenSequence(
        joined,
        [pieces[-1 - i] if i < 0 else i for i in row],
        [spans[-1 - i] if i < 0 else None for i in row],
        n_truncated=len(pieces) - sum(i < 0 for i in row),
    )


def _segments(pipeline: Pipeline, ids: Sequence[int]) -> list[int] | None:
    """The token_type_ids as the model gets them; None if it has no segments."""
    config = pipeline.recipe.model
    if config.n_segments < 2:
        return None
    used = uses_token_types(pipeline.vocabulary, config.n_segments, config.pooling)
    if not used or not pipeline.task.token_types:
        return [0] * len(ids)
    found: list[int] = token_type_ids(torch.tensor([ids]), pipeline.vocabulary.sep_id)[0].tolist()
    return found


def _masked_sequence(text: str, tokenizer: Tokenizer, max_length: int) -> TokenSequence:
    """A text with [MASK] in it, which becomes the mask token."""
    ids = [int(i) for i in encode_with_masks([text], TextEncoder(tokenizer, max_length))[0]]
    before, after = tokenizer.input_template.n_before_and_after()
    first, last = before, len(ids) - after
    kept = ids[first:last]
    own = align_spans(text, kept, tokenizer, [piece_or_empty(tokenizer, i) for i in kept])
    spans: list[Span | None] = [*[None] * first, *own, *[None] * (len(ids) - last)]
    return TokenSequence(text, ids, spans)


def _spans_in(text: str, ids: Sequence[int], tokenizer: Tokenizer) -> list[Span | None]:
    """The spans of ids in the text they decode to; None for [EOS] and other special tokens."""
    special = _special_ids(tokenizer)
    spans = align_spans(text, ids, tokenizer, [piece_or_empty(tokenizer, i) for i in ids])
    return [None if i in special else span for i, span in zip(ids, spans, strict=True)]


def _special_ids(tokenizer: Tokenizer) -> set[int]:
    """The ids of special tokens without text; [UNK] and [MASK] stand for text."""
    found = set()
    for name in ("pad_id", "bos_id", "eos_id", "sep_id", "cls_id"):
        try:
            found.add(int(getattr(tokenizer, name)))
        except InputError:
            continue
    return found
