"""Texts with the piece and the n-grams of each character, as a `CharacterClassifier` reads them.

Shapes: B texts, C characters, G n-grams of a character.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from jumok.data.packing import pad
from jumok.models.character_classifier import FIRST, LATER, NGRAM_ROWS, NO_TOKEN, Characters
from jumok.tasks.inputs.special_tokens import length_limit
from jumok.tasks.inputs.text_encoder import TextEncoder
from jumok.tasks.inputs.token_labels import TokenizedTexts
from jumok.text.character_ngrams import WINDOWS, ngram_rows
from jumok.text.offsets import Span, offsets
from jumok.text.ragged import Ragged
from jumok.unicode_forms import normalize

MAX_CHARACTERS_PER_TOKEN = 16  # on average; a tokenizer may have one [UNK] for a long text


@dataclass(frozen=True)
class CharacterTexts(TokenizedTexts):
    """Texts whose outputs are those of composed characters (NFC), from the first piece to the last.

    `spans` are the characters of the text that were composed to one, and `positions` the numbers
    of the characters. Text beyond the truncated input has no characters.
    """

    composed: Sequence[str]  # the characters of each text
    tokens: Ragged  # the position in the row of ids of its piece
    places: Ragged  # NO_TOKEN, FIRST of its piece or LATER

    @classmethod
    def encode(cls, texts: Sequence[str], encode: TextEncoder) -> "CharacterTexts":
        """Encode the texts. Raises InputError when the tokenizer rewrites one."""
        pieces = TokenizedTexts.encode(texts, encode)
        limit = MAX_CHARACTERS_PER_TOKEN * encode.max_length
        all_spans, composed, tokens, places = [], [], [], []
        for number, text in enumerate(texts):
            token, place = _tokens_and_places(text, pieces.spans[number], pieces.positions[number])
            characters, spans = compose(text)
            covered = np.flatnonzero(place != NO_TOKEN)
            first, last = (covered[0], covered[-1]) if len(covered) else (0, -1)
            kept = [k for k, (start, _) in enumerate(spans) if first <= start <= last][:limit]
            starts = [spans[k][0] for k in kept]
            all_spans.append([spans[k] for k in kept])
            composed.append("".join(characters[k] for k in kept))
            tokens.append(token[starts].tolist())
            places.append(place[starts].tolist())
        return cls(
            texts,
            pieces.ids,
            all_spans,
            [range(len(spans)) for spans in all_spans],
            composed,
            Ragged.from_lists(tokens),
            Ragged.from_lists(places),
        )

    def with_pieces(
        self, numbers: NDArray[np.int64], sampled: Ragged, encode: TextEncoder
    ) -> "CharacterTexts":
        """These texts with other pieces for some of them: `sampled`, without special tokens.

        A text keeps its pieces where the others have an [UNK] or do not fit.
        """
        tokenizer = encode.tokenizer
        before, after = tokenizer.input_template.n_before_and_after()
        limit = length_limit(tokenizer, encode.max_length)
        fits = before + sampled.lengths + after <= limit
        known = [tokenizer.unk_id not in sampled[row] for row in range(len(sampled))]
        rows = np.flatnonzero(fits & np.array(known, np.bool_))
        tokens = Ragged(self.tokens.ids.copy(), self.tokens.offsets)
        places = Ragged(self.places.ids.copy(), self.places.offsets)
        for number, row in zip(numbers[rows].tolist(), rows.tolist(), strict=True):
            pieces = [tokenizer.piece(int(i)) for i in sampled[row]]
            spans = offsets(self.texts[number], pieces)
            positions = range(before, before + len(spans))
            token, place = _tokens_and_places(self.texts[number], spans, positions)
            starts = [start for start, _ in self.spans[number]]
            tokens[number][:], places[number][:] = token[starts], place[starts]
        source = np.arange(len(self.ids))
        source[numbers[rows]] = len(self.ids) + np.arange(len(rows))
        both = Ragged.concat([self.ids, encode.add_special_tokens(sampled.take(rows))])
        return replace(self, ids=both.take(source), tokens=tokens, places=places)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The sizes of each text that determine its batch, (n, 2): ids and characters."""
        return np.stack([self.ids.lengths, self.tokens.lengths], -1)

    @property
    def output_lengths(self) -> NDArray[np.int64]:
        """The number of outputs of the model for each text, (n,): one for each character."""
        return self.tokens.lengths

    def characters(self, numbers: NDArray[np.int64], device: torch.device) -> Characters:
        """The characters of these texts, padded to one length."""
        tokens = pad([self.tokens[i] for i in numbers], 0)
        places = pad([self.places[i] for i in numbers], NO_TOKEN)
        ngrams = np.zeros((*tokens.ids.shape, len(WINDOWS)), np.int64)  # (B, C, G)
        for row, i in enumerate(numbers):
            ngrams[row, : self.tokens.lengths[i]] = ngram_rows(self.composed[i], NGRAM_ROWS)
        mask = None if tokens.mask.all() else torch.from_numpy(tokens.mask).to(device)
        return Characters(
            torch.from_numpy(tokens.ids).to(device),
            torch.from_numpy(places.ids).to(device),
            torch.from_numpy(ngrams).to(device),
            mask,
        )


def _tokens_and_places(
    text: str, spans: Sequence[Span], positions: Sequence[int]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """For each character of the text the position of its piece in the row of ids, and its place."""
    token = np.zeros(len(text), np.int32)
    place = np.full(len(text), NO_TOKEN, np.int32)
    for position, (start, stop) in zip(positions, spans, strict=True):
        token[start:stop], place[start:stop] = position, LATER
        spaces = len(text[start:stop]) - len(text[start:stop].lstrip())
        place[start + spaces : min(start + spaces + 1, stop)] = FIRST
    return token, place


def compose(text: str) -> tuple[str, list[Span]]:
    r"""The text in NFC, and the characters of the text that each of its characters is made of.

    >>> compose("\u1109\u1165\u110b\u116e\u11af")
    ('서울', [(0, 2), (2, 5)])
    """
    composed = normalize("NFC", text)
    if composed == text:
        return text, [(index, index + 1) for index in range(len(text))]
    return composed, offsets(text, list(composed))
