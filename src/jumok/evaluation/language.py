"""How well a language is known: perplexity of the tokens, bits for each byte of the text."""

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class LanguageScores:
    """Perplexity depends on how a vocabulary cuts the text; bits per byte does not."""

    tokens: int
    n_bytes: int
    perplexity: float
    bits_per_byte: float


def score_language(nats: float, tokens: int, n_bytes: int) -> LanguageScores:
    """The scores of a model to which some text costs `nats`, the sum of -ln p of its tokens.

    Perplexity is exp(nats / tokens), and counts every token that was predicted: pieces, and the
    marks that end a text. Bits per byte is nats / ln 2 / bytes: the same cost, those marks
    included, over the bytes of the text alone, so models with any vocabulary compare. `n_bytes`
    is that of the text as UTF-8 (`utf8_bytes`), as a person wrote it; Hangul has 3 a syllable.

    >>> score_language(nats=8 * math.log(2), tokens=4, n_bytes=6)  # 8 bits for "안녕"
    LanguageScores(tokens=4, n_bytes=6, perplexity=4.0, bits_per_byte=1.3333333333333333)
    """
    if tokens < 1 or n_bytes < 1:
        raise ValueError(f"{tokens} tokens of {n_bytes} bytes; there is nothing to score")
    mean = nats / tokens
    return LanguageScores(
        tokens,
        n_bytes,
        math.exp(mean) if mean < math.log(1e300) else math.inf,
        nats / math.log(2) / n_bytes,
    )


def utf8_bytes(texts: Iterable[str]) -> int:
    """The bytes of the texts as UTF-8; what stands between texts is not counted.

    >>> utf8_bytes(["안녕", "hi"])
    8
    """
    return sum(len(text.encode()) for text in texts)
