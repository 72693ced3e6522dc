"""A report on how well a vocabulary fits texts: unknown tokens, and texts that are lossy."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher

from jumok.text.sentencepiece import SentencePieceTokenizer

_MAX_MISSING = 20


@dataclass(frozen=True)
class LossyText:
    """A text that `decode` does not restore, with the first difference."""

    text: str
    decoded: str
    expected: str  # the characters of the text (a key of `jumok vocab report --json`)
    got: str  # the characters of the decoded text


@dataclass(frozen=True)
class VocabularyReport:
    """Counts of a vocabulary on texts that are normalized by the vocabulary's rule."""

    size: int
    kind: str
    normalization: str
    texts: int
    characters: int  # code points, spaces included
    eojeols: int  # words between spaces
    tokens: int
    unknown_tokens: int
    missing: tuple[tuple[str, int], ...]  # what became [UNK], with counts, most frequent first
    recomposed_texts: int  # texts that normalization changed, as NFD to NFC; not losses
    lost_texts: int  # texts that decode(encode(text)) does not restore
    losses: tuple[LossyText, ...]  # some of them

    @property
    def unknown_rate(self) -> float:
        """The fraction of tokens that are [UNK]."""
        return self.unknown_tokens / self.tokens if self.tokens else 0.0

    @property
    def tokens_per_character(self) -> float:
        """Tokens per character: the lower, the shorter the rows."""
        return self.tokens / self.characters if self.characters else 0.0

    @property
    def tokens_per_eojeol(self) -> float:
        """Tokens per word between spaces."""
        return self.tokens / self.eojeols if self.eojeols else 0.0


def measure_vocabulary(
    vocabulary: SentencePieceTokenizer, texts: Iterable[str], *, examples: int = 5
) -> VocabularyReport:
    """Encode and decode every text; at most `examples` losses are kept.

    >>> from jumok.text import SentencePieceTokenizer, VocabularyConfig
    >>> vocabulary = SentencePieceTokenizer.train(["가 나 가"], VocabularyConfig(size=18))
    >>> found = measure_vocabulary(vocabulary, ["가 나", "가 뷁"])
    >>> found.tokens, found.unknown_tokens, found.missing, found.losses[0].expected
    (8, 1, (('뷁', 1),), '뷁')
    """
    originals = list(texts)
    composed = [vocabulary.normalize(text) for text in originals]
    rows = vocabulary.encode_batch(originals)
    unknown = vocabulary.special_ids.get("[UNK]", -1)
    missing: Counter[str] = Counter()
    for text, ids in zip(composed, rows, strict=True):
        if unknown in ids:
            pairs = zip(ids, vocabulary.pieces(text), strict=True)
            missing.update(piece for i, piece in pairs if i == unknown)
    lost = [
        (text, decoded)
        for text, decoded in zip(composed, vocabulary.decode_batch(rows), strict=True)
        if text != decoded
    ]
    return VocabularyReport(
        size=len(vocabulary),
        kind=vocabulary.kind,
        normalization=vocabulary.normalization,
        texts=len(originals),
        characters=sum(map(len, composed)),
        eojeols=sum(len(text.split()) for text in composed),
        tokens=sum(map(len, rows)),
        unknown_tokens=missing.total(),
        missing=tuple(missing.most_common(_MAX_MISSING)),
        recomposed_texts=sum(a != b for a, b in zip(originals, composed, strict=True)),
        lost_texts=len(lost),
        losses=tuple(_loss(text, decoded) for text, decoded in lost[:examples]),
    )


def _loss(text: str, decoded: str) -> LossyText:
    changes = SequenceMatcher(None, text, decoded, autojunk=False).get_opcodes()
    _, a, b, c, d = next(change for change in changes if change[0] != "equal")
    return LossyText(text, decoded, expected=text[a:b], got=decoded[c:d])
