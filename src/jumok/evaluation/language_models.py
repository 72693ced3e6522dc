"""How well texts were foreseen: perplexity a token, and bits a byte, which any two models share.

A perplexity counts tokens, and tokens are cut differently by every vocabulary; bytes are not.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class LanguageModelMetrics:
    """What a language model made of texts, every token of them foreseen exactly once.

    >>> scores = LanguageModelMetrics(n=1, tokens=4, bytes=6, nats=4 * math.log(8))
    >>> round(scores.perplexity, 6), round(scores.bits_per_byte, 6)
    (8.0, 2.0)
    """

    n: int  # texts
    tokens: int  # foreseen: the pieces of every text and its [EOS]
    bytes: int  # of the texts in UTF-8, letters composed (NFC)
    nll_nats: float  # -log p, natural, summed over the tokens

    @property
    def loss(self) -> float:
        """Mean -log p of a token, in nats."""
        return self.nll_nats / max(self.tokens, 1)

    @property
    def perplexity(self) -> float:
        """exp of the mean -log p of a token: among so many equally likely tokens it chose."""
        return math.exp(min(self.loss, 700.0))  # where floats end

    @property
    def bits_per_byte(self) -> float:
        """-log2 p of all texts, divided by their bytes: how far they could be compressed."""
        return self.nll_nats / math.log(2) / max(self.bytes, 1)
