"""Masking (Devlin et al. 2019, 3.1): which tokens are hidden, and what stands in their place.

Of the tokens chosen in a text 8 of 10 become [MASK], 1 of 10 another piece, 1 of 10 stay as they
are. Special pieces are never chosen. All rows are masked at once: a pure function of the rows, the
config and the random numbers handed in.
"""

import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jumok.errors import InputError
from jumok.tasks.inputs.special_tokens import embedding_rows
from jumok.text.pretrained import PretrainedTokenizer
from jumok.text.ragged import Ids, Ragged
from jumok.text.sentencepiece import SentencePieceTokenizer
from jumok.text.tokenizer import Tokenizer, unk_id

P_MASK, P_RANDOM = 0.8, 0.1  # of the chosen; the rest stay as they are
SPACE_MARKER = "▁"  # what a piece begins with that begins a word
BYTE_SPACE_MARKER = "Ġ"  # the same where pieces are made of bytes
CONTINUATION_PREFIX = "##"  # what a piece of WordPiece begins with that begins none

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """The [masking] table: how much a masked language model must guess."""

    mlm_probability: float = 0.15  # of the tokens of a text, never less than one
    whole_words: bool = False  # all pieces of an eojeol (what stands between spaces) together

    def __post_init__(self) -> None:
        if not 0.0 < self.mlm_probability < 1.0:
            raise InputError(
                f"masking.mlm_probability {self.mlm_probability}: give more than 0, less than 1"
            )


@dataclass(frozen=True, eq=False)
class PieceInfo:
    """What masking must know of a vocabulary: (V,) each.

    >>> from jumok.text.sentencepiece import SentencePieceTokenizer, VocabularyConfig
    >>> vocabulary = SentencePieceTokenizer.train(["가 나 가"], VocabularyConfig(size=18))
    >>> pieces = Pieces.of(vocabulary)
    >>> ids = [vocabulary.cls_id, *vocabulary.encode("가 나")]  # ▁ 가 ▁ 나
    >>> pieces.ordinary[ids].tolist(), pieces.begins[ids].tolist()
    ([False, True, True, True, True], [False, True, False, True, False])
    """

    maskable: Bools  # may be hidden, or stand in another's place
    starts_word: Bools  # begins a word
    mask_id: int
    word_internal_unk: int = (
        -1
    )  # [UNK], where it may stand in the midst of a word; -1: it stands alone

    @classmethod
    def of(cls, vocabulary: Tokenizer) -> "PieceInfo":
        """The pieces of a vocabulary; InputError when it has no [MASK]."""
        ordinary = np.ones(embedding_rows(vocabulary), dtype=np.bool_)
        ordinary[list(special_ids(vocabulary))] = False
        begins = np.zeros_like(ordinary)
        for i in np.flatnonzero(ordinary):
            try:
                begins[i] = starts_word(vocabulary, int(i))
            except InputError:  # a row to spare: no text has it
                ordinary[i] = False
        whole = isinstance(vocabulary, PretrainedTokenizer) and vocabulary.kind == "wordpiece"
        return cls(ordinary, begins, vocabulary.mask_id, -1 if whole else unk_id(vocabulary))


@dataclass(frozen=True, eq=False)
class MaskedRows:
    """Rows as a model reads them, which of their tokens were chosen, and the rows as they were."""

    rows: Ragged
    mask: Bools  # (tokens of all rows,)
    labels: Ids  # (tokens of all rows,)


def mask_tokens(
    rows: Ragged, pieces: PieceInfo, config: MaskingConfig, rng: np.random.Generator
) -> MaskedRows:
    """Choose `config.share` of the ordinary tokens of each row and hide them.

    >>> ordinary, begins = np.arange(100) > 9, np.arange(100) % 2 == 0  # even ids begin words
    >>> rows = Ragged.from_lists([[5, 20, 21, 23, 30, 32, 40, 41]])  # 5 is special; four words
    >>> masked = hide(
    ...     rows,
    ...     Pieces(ordinary, begins, mask_id=6),
    ...     MaskingConfig(share=0.3, whole_words=True),
    ...     np.random.default_rng(3),
    ... )
    >>> masked.chosen.astype(int), masked.rows[0]
    (array([0, 0, 0, 0, 0, 0, 1, 1]), array([ 5, 20, 21, 23, 30, 32,  6,  6], dtype=int32))
    """
    chosen = _choose(rows, pieces, config, rng)
    n = int(chosen.sum())
    fate = rng.random(n)
    others = np.flatnonzero(pieces.maskable)
    other = others[rng.integers(len(others), size=n)]
    truth = rows.ids[chosen]
    ids = rows.ids.copy()
    ids[chosen] = np.where(
        fate < P_MASK, pieces.mask_id, np.where(fate < P_MASK + P_RANDOM, other, truth)
    )
    return MaskedRows(Ragged(ids, rows.offsets), chosen, rows.ids)


def _choose(
    rows: Ragged, pieces: PieceInfo, config: MaskingConfig, rng: np.random.Generator
) -> Bools:
    """Which tokens are chosen: the words of a row in random order, up to its share.

    Without `whole_words` every token is a word. The word that crosses the share is taken when
    half of it or more lies within; the first one always. Gives (tokens of all rows,).
    """
    ordinary = pieces.maskable[rows.ids]
    owner = np.repeat(np.arange(len(rows)), rows.lengths)  # the row of each token
    first = np.ones_like(ordinary)  # of each word
    if config.whole_words:  # what is special stands by itself, and so does what follows it
        special = ~ordinary & (rows.ids != pieces.word_internal_unk)
        first = pieces.starts_word[rows.ids] | special
        first[1:] |= special[:-1]
        first[rows.offsets[:-1][rows.lengths > 0]] = True
    word = np.cumsum(first) - 1  # the word of each token
    row = owner[first]  # the row of each word
    length = np.bincount(word, ordinary, minlength=len(row)).astype(np.int64)

    order = np.lexsort((rng.random(len(row)), row))  # row by row, at random within
    row, length = row[order], length[order]
    of_row = np.bincount(owner, ordinary, minlength=len(rows)).astype(np.int64)
    before = np.cumsum(length) - length - (np.cumsum(of_row) - of_row)[row]  # tokens taken so far
    budget = np.maximum(np.floor(config.mlm_probability * of_row + 0.5), 1)[row]
    taken = (length > 0) & ((before == 0) | (before + length / 2 <= budget))

    of_word = np.empty_like(taken)
    of_word[order] = taken
    return of_word[word] & ordinary  # type: ignore[no-any-return]


def starts_word(vocabulary: Tokenizer, id_: int) -> bool:
    """Whether a piece begins a word: it holds the space before it, or lacks WordPiece's ##."""
    piece = vocabulary.piece(id_)
    if isinstance(vocabulary, PretrainedTokenizer) and vocabulary.kind == "wordpiece":
        return not piece.startswith(CONTINUATION_PREFIX)
    return piece.startswith((SPACE_MARKER, BYTE_SPACE_MARKER))


def starts_word_after(text: str, vocabulary: Tokenizer) -> bool:
    """Whether what comes behind a text begins a word: where the vocabulary would cut anyway.

    Ours and bytes cut before spaces; WordPiece at all white space, punctuation and Chinese signs,
    behind which nothing with ## can stand; other imported ones at all white space. At the beginning
    of a text ("") it does where the vocabulary puts a space there.
    """
    if not text:
        ids = vocabulary.encode("a")
        return not ids or starts_word(vocabulary, ids[0])
    if not isinstance(vocabulary, PretrainedTokenizer) or vocabulary.kind == "bpe":
        return text.endswith(" ")
    last = text[-1:]
    if vocabulary.kind != "wordpiece":
        return last.isspace()
    chinese = unicodedata.name(last, "").startswith("CJK")
    return last.isspace() or chinese or _is_punctuation(last)


def _is_punctuation(sign: str) -> bool:
    """As BERT counts it: all of ASCII's that are neither letters nor digits, too."""
    plain = sign.isascii() and sign.isprintable() and not sign.isalnum()
    return plain or unicodedata.category(sign).startswith("P")


def piece_text(vocabulary: Tokenizer, id_: int) -> str:
    """What a piece writes, without the space before it."""
    piece = vocabulary.piece(id_)
    if not isinstance(vocabulary, PretrainedTokenizer):
        return piece.removeprefix(SPACE_MARKER)
    if vocabulary.kind == "wordpiece":
        return piece.removeprefix(CONTINUATION_PREFIX)
    return vocabulary.decode([id_]).strip()


def has_space_pieces(vocabulary: Tokenizer) -> bool:
    """Whether the space before a word is a piece of its own, as in vocabularies of characters."""
    return isinstance(vocabulary, SentencePieceTokenizer) and vocabulary.kind == "char"


def special_ids(vocabulary: Tokenizer) -> Iterator[int]:
    """The ids of the special pieces that the vocabulary has."""
    for name in ("pad_id", "unk_id", "bos_id", "eos_id", "sep_id", "cls_id", "mask_id"):
        with suppress(InputError):
            yield getattr(vocabulary, name)
