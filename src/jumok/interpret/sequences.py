"""Texts to the rows a model reads and is given, as its task frames them, with their places.

What frames a text is found by framing numbers in place of ids: -1 for the first piece, -2 for the
second. Whatever comes back from 0 on is a special piece.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from jumok.errors import InputError
from jumok.interpret.tokens import TokenSequence, align_spans, token_spans
from jumok.tasks.inputs.special_tokens import build_inputs, build_source, build_target
from jumok.tasks.inputs.text_encoder import (
    TextEncoder,
    TextInputs,
    token_type_ids,
    uses_token_types,
)
from jumok.tasks.masked_lm import encode_with_masks
from jumok.tasks.pipeline.causal_generation import prompt_ids
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.text.offsets import Span
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer, piece_or_empty

Framing = Callable[[Ragged, Ragged | None], Ragged]


@dataclass(frozen=True)
class _Encoded:
    """The pieces of a text before anything stands around them."""

    text: str
    ids: Sequence[int]
    spans: Sequence[Span]


def source_sequence(loaded: Pipeline, text: str) -> TokenSequence:
    """What an encoder reads of a text, or of a pair parted by a TAB."""
    vocabulary, most = loaded.vocabulary, loaded.recipe.model.max_length
    task = loaded.recipe.task
    if task == "sequence_to_sequence":
        return _framed(
            [_encode(text, vocabulary)], lambda rows, _: build_source(vocabulary, rows, most)
        )
    if task == "masked_language_modeling" and "[MASK]" in text:
        return _masked_sequence(text, vocabulary, most)
    row = _framed(
        _encode_texts(loaded, text), lambda rows, pairs: build_inputs(vocabulary, rows, pairs, most)
    )
    segments = _segments(loaded, [*row.ids, vocabulary.padding_id])
    if segments is None:
        return row
    return replace(row, segments=segments[:-1], padding_segment=segments[-1])


def target_sequence(loaded: Pipeline, target: str) -> TokenSequence:
    """What a decoder reads of a target that is given: all but the end."""
    vocabulary, most = loaded.target_vocabulary, loaded.recipe.model.max_length
    row = _framed(
        [_encode(target, vocabulary)], lambda rows, _: build_target(vocabulary, rows, most)
    )
    return replace(row, ids=row.ids[:-1], spans=row.spans[:-1])


def generated_sequence(loaded: Pipeline, ids: Sequence[int]) -> TokenSequence:
    """What a decoder reads of its own answer: [BOS] and the ids it wrote.

    The last id of an answer that was cut off where the model is full is never read.
    """
    vocabulary, most = loaded.target_vocabulary, loaded.recipe.model.max_length
    text = vocabulary.decode(ids)
    row = [vocabulary.decoder_start_id, *ids]
    places = [None, *_spans_in(text, ids, vocabulary)]
    return TokenSequence(text, row[:most], places[:most], n_truncated=max(len(row) - most, 0))


def start_sequence(vocabulary: Tokenizer) -> TokenSequence:
    """[BOS] alone."""
    return TokenSequence("", [vocabulary.decoder_start_id], [None])


def continuation_sequence(loaded: Pipeline, text: str, more: Sequence[int]) -> TokenSequence:
    """A text as a language model reads it, and the ids that go on from it."""
    vocabulary = loaded.vocabulary
    ids = prompt_ids(loaded, text)
    own = _encode(text, vocabulary)
    before, whole = vocabulary.decode_batch([own.ids, [*own.ids, *more]])
    new = whole.removeprefix(before) if whole.startswith(before) else vocabulary.decode(more)
    start = len(text)
    return TokenSequence(
        text + new,
        [*ids, *more],
        [
            *[None] * (len(ids) - len(own.ids)),
            *own.spans,
            *(
                None if place is None else (start + place[0], start + place[1])
                for place in _spans_in(new, more, vocabulary)
            ),
        ],
    )


def _encode_texts(loaded: Pipeline, text: str) -> list[_Encoded]:
    """The pieces of a text, or of the two texts of a pair."""
    lines = TextInputs.from_lines([text], loaded.recipe.paired)
    first = _encode(lines.texts[0], loaded.vocabulary)
    if lines.pairs is None:
        return [first]
    return [first, _encode(lines.pairs[0], loaded.vocabulary)]


def _encode(text: str, vocabulary: Tokenizer) -> _Encoded:
    ids = vocabulary.encode(text)
    return _Encoded(text, ids, token_spans(text, ids, vocabulary))


def _framed(texts: Sequence[_Encoded], frame: Framing) -> TokenSequence:
    """One text, or two of a pair, with what stands around them."""
    pieces: list[int] = []
    places: list[Span] = []
    rows: list[Ragged] = []
    joined = "\t".join(cut.text for cut in texts)
    start = 0
    for cut in texts:
        n = len(pieces)
        rows.append(Ragged.from_lists([[-1 - n - i for i in range(len(cut.ids))]]))
        pieces += cut.ids
        places += [(begin + start, end + start) for begin, end in cut.spans]
        start += len(cut.text) + 1
    row = [int(i) for i in frame(rows[0], rows[1] if len(rows) > 1 else None)[0]]
    return TokenSequence(
        joined,
        [pieces[-1 - i] if i < 0 else i for i in row],
        [places[-1 - i] if i < 0 else None for i in row],
        n_truncated=len(pieces) - sum(i < 0 for i in row),
    )


def _segments(loaded: Pipeline, ids: Sequence[int]) -> list[int] | None:
    """Which text of a pair each token belongs to, as the model is told; None where it is not."""
    config = loaded.recipe.model
    if config.n_segments < 2:
        return None
    told = uses_token_types(loaded.vocabulary, config.n_segments, config.pooling)
    if not told or loaded.recipe.task not in ("classification", "regression"):
        return [0] * len(ids)
    found: list[int] = token_type_ids(torch.tensor([ids]), loaded.vocabulary.sep_id)[0].tolist()
    return found


def _masked_sequence(text: str, vocabulary: Tokenizer, most: int) -> TokenSequence:
    """A text in which somebody typed [MASK]: the blank stands for that."""
    ids = [int(i) for i in encode_with_masks([text], TextEncoder(vocabulary, most))[0]]
    before, behind = vocabulary.input_template.n_before_and_after()
    first, last = before, len(ids) - behind
    kept = ids[first:last]
    own = align_spans(text, kept, vocabulary, [piece_or_empty(vocabulary, i) for i in kept])
    places: list[Span | None] = [*[None] * first, *own, *[None] * (len(ids) - last)]
    return TokenSequence(text, ids, places)


def _spans_in(text: str, ids: Sequence[int], vocabulary: Tokenizer) -> list[Span | None]:
    """The places of ids in the text they spell; None for [EOS] and the like."""
    special = _special_ids(vocabulary)
    places = align_spans(text, ids, vocabulary, [piece_or_empty(vocabulary, i) for i in ids])
    return [None if i in special else place for i, place in zip(ids, places, strict=True)]


def _special_ids(vocabulary: Tokenizer) -> set[int]:
    """The ids of [BOS], [EOS], [PAD] and the like; [UNK] and [MASK] stand for something."""
    found = set()
    for name in ("pad_id", "bos_id", "eos_id", "sep_id", "cls_id"):
        try:
            found.add(int(getattr(vocabulary, name)))
        except InputError:
            continue
    return found
