"""Subword regularization: random segmentations of the same words in every epoch.

Unigram vocabularies sample a segmentation by its probability (`unigram_sampling.py`), BPE
vocabularies drop merges (`bpe_dropout.py`). SentencePiece can do both, but cannot be seeded, so
that a resumed training would differ. Here one numpy generator has the caller's seed, and all words
of a batch are segmented at once.
"""

import itertools
import re
from collections.abc import Iterable, Sequence

import numpy as np

from jumok.errors import TokenizerError
from jumok.text.bpe_dropout import BPEDropout
from jumok.text.piece_trie import Segmentations, WordBatch
from jumok.text.sentencepiece_proto import ModelFile, PieceType
from jumok.text.unigram_sampling import UnigramSampler

_SPACE = "▁"
# Lone surrogates, which no checked text contains, represent user-defined pieces.
_FIRST_PLACEHOLDER, _MAX_PLACEHOLDERS = 0xD800, 2048


class SubwordSampler:
    """Samples segmentations of texts with the pieces of one SentencePiece model."""

    def __init__(self, model: ModelFile) -> None:
        """Raise InputError for a vocabulary without sampling, or with too many whole pieces."""
        if model.kind not in ("unigram", "bpe"):
            raise TokenizerError(
                "text.one_segmentation",
                "a {kind} vocabulary has one segmentation of every text; encode without "
                "sampling, or train a unigram or bpe vocabulary",
                kind=model.kind,
            )
        user_defined = _ids_of_type(model, PieceType.USER_DEFINED)
        if len(user_defined) > _MAX_PLACEHOLDERS:
            raise TokenizerError(
                "text.too_many_user_defined_pieces",
                "the vocabulary has {n_user_defined} user-defined pieces; sampling supports at "
                "most {max_placeholders}, encode without it",
                n_user_defined=len(user_defined),
                max_placeholders=_MAX_PLACEHOLDERS,
            )
        # A user-defined piece is never split: one character represents it, the longest first.
        longest_first = sorted(user_defined, key=len, reverse=True)
        self._placeholders = {
            piece: chr(_FIRST_PLACEHOLDER + i) for i, piece in enumerate(longest_first)
        }
        alternatives = "|".join(map(re.escape, longest_first))
        self._user_defined = re.compile(alternatives) if longest_first else None
        ids = _ids_of_type(model, PieceType.NORMAL) | {
            placeholder: user_defined[piece] for piece, placeholder in self._placeholders.items()
        }
        # Words are segmented independently, unless a piece contains an inner space.
        crosses_words = any(_SPACE in piece[1:] for piece in ids)
        word = r".+" if crosses_words else rf"{_SPACE}[^{_SPACE}]*|[^{_SPACE}]+"
        self._word = re.compile(word, re.S)
        self._unknown = next(iter(_ids_of_type(model, PieceType.UNKNOWN).values()), -1)
        self._byte_fallback = model.byte_fallback
        self._bytes = [i for _, i in sorted(_ids_of_type(model, PieceType.BYTE).items())]
        self._sampler: UnigramSampler | BPEDropout = (
            BPEDropout(model, ids) if model.kind == "bpe" else UnigramSampler(model, ids)
        )

    def sample(self, normalized: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        """Random ids of texts that SentencePiece has normalized (spaces are ▁).

        Raises InputError for an alpha that the kind of vocabulary does not have, and for a negative
        seed.
        """
        self._sampler.check_alpha(alpha)
        if seed < 0:
            raise TokenizerError(
                "text.seed", "seed must be an integer of at least 0, got {seed}", seed=seed
            )
        words: dict[str, int] = {}  # distinct words, in the order of their first occurrences
        occurrences: list[int] = []  # of all texts: indices of words
        words_per_text: list[int] = []
        for text in normalized:
            found = self._word.findall(self._with_placeholders(text))
            occurrences.extend(words.setdefault(word, len(words)) for word in found)
            words_per_text.append(len(found))
        if not occurrences:
            return [[] for _ in normalized]
        generator = np.random.Generator(np.random.PCG64(seed))
        sampled = self._sampler.sample(WordBatch.of(words), np.array(occurrences), alpha, generator)
        return [self._resolve_unknown(ids) for ids in _split_by_text(sampled, words_per_text)]

    def _with_placeholders(self, text: str) -> str:
        """The text with one character for each user-defined piece."""
        if self._user_defined is None:
            return text
        return self._user_defined.sub(lambda match: self._placeholders[match[0]], text)

    def _resolve_unknown(self, ids: list[int]) -> list[int]:
        """Unknown characters as bytes, or a sequence of them as one [UNK], as in SentencePiece."""
        if min(ids, default=0) >= 0:
            return ids
        result: list[int] = []
        after_unknown = False
        for piece in ids:
            if piece >= 0:
                result.append(piece)
            elif self._byte_fallback:
                result.extend(self._bytes[byte] for byte in chr(-1 - piece).encode())
            elif not after_unknown:
                result.append(self._unknown)
            after_unknown = piece < 0
        return result


def _split_by_text(words: Segmentations, words_per_text: Iterable[int]) -> list[list[int]]:
    """The ids of consecutive words, as one list for each text."""
    piece_ends = np.cumsum(np.concatenate(([0], words.counts)))  # after each word
    text_ends = piece_ends[np.cumsum([0, *words_per_text])].tolist()
    ids = words.ids.tolist()
    return [ids[start:end] for start, end in itertools.pairwise(text_ends)]


def _ids_of_type(model: ModelFile, piece_type: PieceType) -> dict[str, int]:
    """The pieces of one type with their ids."""
    rows = enumerate(zip(model.pieces, model.types, strict=True))
    return {piece: i for i, (piece, type_) in rows if type_ is piece_type}
