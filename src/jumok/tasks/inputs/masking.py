"""Masking (Devlin et al. 2019, 3.1): which tokens are masked, and what replaces them.

Of the masked tokens 80 % become [MASK], 10 % a random piece, and 10 % stay unchanged. Special
pieces are never masked. All rows are masked at once: a pure function of the rows, the config and
the random generator.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jumok.errors import InputError
from jumok.tasks.recipe.tables import MaskingConfig
from jumok.text.ragged import Ids, Ragged
from jumok.text.tokenizer import Tokenizer, unk_id

P_MASK, P_RANDOM = 0.8, 0.1  # of the masked tokens; the others stay unchanged

Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class PieceInfo:
    """The properties of all pieces of a tokenizer that masking needs, (V,) each.

    >>> from jumok.text.sentencepiece import SentencePieceTokenizer, VocabularyConfig
    >>> tokenizer = SentencePieceTokenizer.train(["가 나 가"], VocabularyConfig(size=18))
    >>> pieces = PieceInfo.of(tokenizer)
    >>> ids = [tokenizer.cls_id, *tokenizer.encode("가 나")]  # ▁ 가 ▁ 나
    >>> pieces.maskable[ids].tolist(), pieces.starts_word[ids].tolist()
    ([False, True, True, True, True], [False, True, False, True, False])
    """

    maskable: Bools  # may be masked, or replace a masked token
    starts_word: Bools
    mask_id: int
    word_internal_unk: int = -1  # [UNK], where it may be inside a word; -1: it is a word

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "PieceInfo":
        """The pieces of a tokenizer; InputError when it has no [MASK]."""
        maskable = np.ones(tokenizer.n_embeddings, dtype=np.bool_)
        maskable[list(tokenizer.special_ids.values())] = False
        starts_word = np.zeros_like(maskable)
        for i in np.flatnonzero(maskable):
            try:
                starts_word[i] = tokenizer.starts_word(int(i))
            except InputError:  # an embedding without a piece
                maskable[i] = False
        unk = -1 if tokenizer.kind == "wordpiece" else unk_id(tokenizer)
        return cls(maskable, starts_word, tokenizer.mask_id, unk)


@dataclass(frozen=True, eq=False)
class MaskedRows:
    """Rows with masked tokens, the mask, and the original ids."""

    rows: Ragged
    mask: Bools  # (tokens of all rows,)
    labels: Ids  # (tokens of all rows,)


def mask_tokens(
    rows: Ragged,
    pieces: PieceInfo,
    config: MaskingConfig,
    rng: np.random.Generator,
    epochs: float = 0.0,
) -> MaskedRows:
    """Mask a fraction of the maskable tokens of each row: `config.probability(epochs)`.

    >>> maskable, starts = np.arange(100) > 9, np.arange(100) % 2 == 0  # even ids start words
    >>> rows = Ragged.from_lists([[5, 20, 21, 23, 30, 32, 40, 41]])  # 5 is special; four words
    >>> masked = mask_tokens(
    ...     rows,
    ...     PieceInfo(maskable, starts, mask_id=6),
    ...     MaskingConfig(mlm_probability=0.3, whole_words=True),
    ...     np.random.default_rng(3),
    ... )
    >>> masked.mask.astype(int), masked.rows[0]
    (array([0, 0, 0, 0, 0, 0, 1, 1]), array([ 5, 20, 21, 23, 30, 32,  6,  6], dtype=int32))
    """
    mask = _select(rows, pieces, config, rng, config.probability(epochs))
    return replace_masked(rows, mask, pieces, rng)


def replace_masked(
    rows: Ragged, mask: Bools, pieces: PieceInfo, rng: np.random.Generator
) -> MaskedRows:
    """Replace the masked tokens: 80 % by [MASK], 10 % by a random piece; 10 % stay.

    >>> rows = Ragged.from_lists([[5, 20, 21, 23]])
    >>> pieces = PieceInfo(np.arange(30) > 9, np.ones(30, bool), mask_id=6)
    >>> mask = np.array([False, True, True, False])
    >>> replace_masked(rows, mask, pieces, np.random.default_rng(0)).rows[0]
    array([ 5,  6,  6, 23], dtype=int32)
    """
    n = int(mask.sum())
    u = rng.random(n)
    candidates = np.flatnonzero(pieces.maskable)
    random_ids = candidates[rng.integers(len(candidates), size=n)]
    ids, labels = rows.ids.copy(), rows.ids[mask]
    ids[mask] = np.where(
        u < P_MASK, pieces.mask_id, np.where(u < P_MASK + P_RANDOM, random_ids, labels)
    )
    return MaskedRows(Ragged(ids, rows.offsets), mask, rows.ids)


def _select(
    rows: Ragged,
    pieces: PieceInfo,
    config: MaskingConfig,
    rng: np.random.Generator,
    probability: float,
) -> Bools:
    """The masked tokens (tokens of all rows,): words in random order, up to the budget of a row.

    Without `whole_words` every token is a word. The word that exceeds the budget is masked when at
    least half of it is within; the first word always.
    """
    maskable = pieces.maskable[rows.ids]
    owner = np.repeat(np.arange(len(rows)), rows.lengths)  # the row of each token
    first = np.ones_like(maskable)  # of each word
    if config.whole_words:  # a special piece is a word, and a word starts after it
        special = ~maskable & (rows.ids != pieces.word_internal_unk)
        first = pieces.starts_word[rows.ids] | special
        first[1:] |= special[:-1]
        first[rows.offsets[:-1][rows.lengths > 0]] = True
    word = np.cumsum(first) - 1  # the word of each token
    row = owner[first]  # the row of each word
    length = np.bincount(word, maskable, minlength=len(row)).astype(np.int64)

    order = np.lexsort((rng.random(len(row)), row))  # by row, random within a row
    row, length = row[order], length[order]
    of_row = np.bincount(owner, maskable, minlength=len(rows)).astype(np.int64)
    before = (
        np.cumsum(length) - length - (np.cumsum(of_row) - of_row)[row]
    )  # tokens selected so far
    budget = np.maximum(np.floor(probability * of_row + 0.5), 1)[row]
    selected = (length > 0) & ((before == 0) | (before + length / 2 <= budget))

    of_words = np.empty_like(selected)
    of_words[order] = selected
    return of_words[word] & maskable  # type: ignore[no-any-return]
