"""Words added to a trained SentencePiece vocabulary, each as one new piece.

A text without any of the words is segmented as before:

unigram: the best segmentation has the largest sum of scores (Kudo 2018, "Subword Regularization",
    equation 4). A normal piece adds segmentations only of texts that contain it; the scores of all
    others, and of unknown characters (the lowest score minus 10), do not change.
bpe: a merge needs a piece for every intermediate result, which would change the merges of other
    texts. A user-defined piece needs none: it is cut out of the text before the first merge.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import sentencepiece

from jumok.errors import TokenizerError
from jumok.text.limits import MAX_PIECE_CHARS, MAX_PIECES
from jumok.text.offsets import SPACE
from jumok.text.sentencepiece import SentencePieceTokenizer
from jumok.text.sentencepiece_proto import ModelFile, PieceType, add_pieces, read_model

MAX_USER_DEFINED = 2048  # that subword regularization can represent
_UNKNOWN_PENALTY = 10.0  # of SentencePiece
_MARGIN = 0.01  # in log-probability; for larger sums 1e-5 of them, above the rounding of float32


@dataclass(frozen=True)
class AddedWords:
    """A vocabulary with new pieces, and the former ids of each new piece, in order."""

    tokenizer: SentencePieceTokenizer
    pieces: tuple[str, ...]
    former_ids: tuple[tuple[int, ...], ...]


def add_words(vocabulary: SentencePieceTokenizer, words: Iterable[str]) -> AddedWords:
    """Add words to a unigram or BPE vocabulary; their ids follow the last one, in order.

    A word becomes a piece as it is at the beginning of a text: with the space before it, in
    vocabularies that insert one. A longer piece of a unigram vocabulary that contains the word
    remains in use. Raises InputError for a vocabulary of another kind and for a word that is empty,
    repeated, a piece already, changed by normalization, or more than one word.

    >>> from jumok.text import VocabularyConfig
    >>> texts = ["주목 한글 한국 한글날"] * 9
    >>> vocabulary = SentencePieceTokenizer.train(texts, VocabularyConfig(size=23))
    >>> added = add_words(vocabulary, ["한국"])
    >>> vocabulary.pieces("한글 한국"), added.tokenizer.pieces("한글 한국")
    (['▁한글', '▁', '한', '국'], ['▁한글', '▁한국'])
    >>> [vocabulary.piece(i) for i in added.former_ids[0]]
    ['▁', '한', '국']
    """
    data = vocabulary.to_bytes()
    model = read_model(data)
    if model.kind not in ("unigram", "bpe"):
        raise TokenizerError(
            "text.words_of_other_kind",
            "words can be added to a unigram or bpe vocabulary, got one of kind {kind}; train a "
            "unigram vocabulary",
            kind=model.kind,
        )
    words = list(words)
    pieces = _checked_pieces(vocabulary, model, words)
    if model.kind == "bpe":
        new = add_pieces(data, [(piece, 0.0) for piece in pieces], PieceType.USER_DEFINED)
    else:
        scores = _scores(model, pieces)
        new = add_pieces(data, [(p, scores[p]) for p in pieces], PieceType.NORMAL)
    former = tuple(tuple(vocabulary.encode(word)) for word in words)
    tokenizer = SentencePieceTokenizer(new)
    first = len(vocabulary)
    assert tokenizer.encode_batch(words) == [[first + i] for i in range(len(words))]
    return AddedWords(tokenizer, tuple(pieces), former)


def _checked_pieces(
    vocabulary: SentencePieceTokenizer, model: ModelFile, words: Sequence[str]
) -> list[str]:
    """The piece of each word. Raises InputError for words that cannot be added."""
    known, pieces = set(model.pieces), dict[str, None]()
    processor = sentencepiece.SentencePieceProcessor(model_proto=vocabulary.to_bytes())
    _check_number(model, len(words))
    for word in words:
        if not word.strip():
            raise TokenizerError(
                "text.empty_word",
                "a word to add must not be empty, got an empty line; leave it out",
            )
        if len(word.split()) > 1 or word != word.strip() or SPACE in word:
            raise TokenizerError(
                "text.word_with_spaces",
                "a word to add must have no spaces, got {word!r}; add its words one by one",
                word=word[:40],
            )
        if len(word) >= MAX_PIECE_CHARS:
            raise TokenizerError(
                "text.word_too_long",
                "a word to add must have fewer than {max_piece_chars} characters, got "
                "{n_word:,}; leave it out",
                max_piece_chars=MAX_PIECE_CHARS,
                n_word=len(word),
            )
        piece = processor.normalize(vocabulary.normalize(word))
        if piece.removeprefix(SPACE).removesuffix(SPACE) != word:
            raise TokenizerError(
                "text.word_not_normalized",
                "a word to add must be as the vocabulary normalizes it, got {word!r}, which "
                "becomes {piece!r}; add that instead",
                word=word,
                piece=piece.strip(SPACE),
            )
        if piece in known:
            raise TokenizerError(
                "text.word_is_a_piece",
                "a word to add must be no piece yet, got {word!r}, which has the id {id}; leave "
                "it out",
                word=word,
                id=vocabulary.id(piece),
            )
        if piece in pieces:
            raise TokenizerError(
                "text.word_twice",
                "each word must be added once, got {word!r} twice; leave one out",
                word=word,
            )
        pieces[piece] = None
    return list(pieces)


def _check_number(model: ModelFile, n: int) -> None:
    """Raise InputError for no words, or too many for the kind of vocabulary."""
    if n == 0:
        raise TokenizerError(
            "text.no_words",
            "the words to add must be at least one, got none; give one word per line",
        )
    most = MAX_PIECES - len(model.pieces)
    if model.kind == "bpe":
        most = MAX_USER_DEFINED - sum(t is PieceType.USER_DEFINED for t in model.types)
    if n > most:
        raise TokenizerError(
            "text.too_many_words",
            "at most {most:,} words can be added to this {kind} vocabulary, got {n:,}; add fewer",
            most=max(most, 0),
            kind=model.kind,
            n=n,
        )


def _scores(model: ModelFile, pieces: Sequence[str]) -> dict[str, float]:
    """The score of each new piece of a unigram vocabulary.

    As high as the best of all pieces, so that the word is preferred to segmentations across its
    end; but lower than that with which a longer piece that contains it would no longer be used, and
    in any case higher than its own former segmentation.
    """
    lattice = _Lattice(model)
    longer = _longer_pieces(model, pieces)
    scores: dict[str, float] = {}
    for piece in sorted(pieces, key=len):  # a shorter new piece may be part of a longer one
        least = _above(lattice.best(piece))
        most = lattice.highest
        for whole, start in longer.get(piece, ()):
            rest = lattice.best(whole[:start]) + lattice.best(whole[start + len(piece) :])
            most = min(most, -_above(rest - lattice.scores[whole]))
        scores[piece] = max(min(most, lattice.highest), least, lattice.lowest)
        lattice.add(piece, scores[piece])
    return scores


def _above(score: float) -> float:
    """A score that is clearly larger."""
    return score + max(_MARGIN, 1e-5 * abs(score))


def _longer_pieces(model: ModelFile, pieces: Iterable[str]) -> Mapping[str, list[tuple[str, int]]]:
    """The normal pieces of the model that contain a new piece, and where it starts in them."""
    occurrences: dict[str, list[tuple[str, int]]] = {piece: [] for piece in pieces}
    lengths = sorted({len(piece) for piece in occurrences})
    for whole, type_ in zip(model.pieces, model.types, strict=True):
        if type_ is not PieceType.NORMAL:
            continue
        for length in lengths:
            for start in range(len(whole) - length + 1):
                if (part := whole[start : start + length]) in occurrences:
                    occurrences[part].append((whole, start))
    return occurrences


class _Lattice:
    """The scores of a unigram vocabulary, and the best segmentation by dynamic programming."""

    def __init__(self, model: ModelFile) -> None:
        rows = list(zip(model.pieces, model.scores, model.types, strict=True))
        self.scores = {piece: s for piece, s, t in rows if t is PieceType.NORMAL}
        self.lowest = min(self.scores.values(), default=0.0)
        self.highest = max(self.scores.values(), default=0.0)
        for piece, _, type_ in rows:
            if type_ is PieceType.USER_DEFINED:  # as SentencePiece scores them
                self.scores[piece] = len(piece.encode()) * self.highest - 0.1
        self._unknown = self.lowest - _UNKNOWN_PENALTY
        self._longest = max(map(len, self.scores), default=1)

    def add(self, piece: str, score: float) -> None:
        self.scores[piece] = score
        self._longest = max(self._longest, len(piece))

    def best(self, text: str) -> float:
        """The sum of scores of the best segmentation; 0 for an empty text."""
        best = [0.0]
        for end in range(1, len(text) + 1):
            found = best[end - 1] + self.scores.get(text[end - 1], self._unknown)
            for start in range(max(0, end - self._longest), end - 1):
                score = self.scores.get(text[start:end])
                if score is not None and best[start] + score > found:
                    found = best[start] + score
            best.append(found)
        return best[-1]
