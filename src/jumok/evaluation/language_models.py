"""Metrics of language models: perplexity per token, and bits per byte.

Perplexities are comparable only with the same tokenizer, bits per byte with any.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class LanguageModelMetrics:
    """The negative log-likelihood of texts, every token of which is predicted once.

    >>> metrics = LanguageModelMetrics(n=1, tokens=4, bytes=6, nll_nats=4 * math.log(8))
    >>> round(metrics.perplexity, 6), round(metrics.bits_per_byte, 6)
    (8.0, 2.0)
    """

    n: int  # texts
    tokens: int  # predicted: the pieces of every text and its [EOS]
    bytes: int  # of the texts in UTF-8 and NFC
    nll_nats: float  # -log p, natural, summed over the tokens

    @property
    def loss(self) -> float:
        """Mean -log p of a token, in nats."""
        return self.nll_nats / max(self.tokens, 1)

    @property
    def perplexity(self) -> float:
        """exp of the mean -log p of a token: the effective number of equally likely tokens."""
        return math.exp(min(self.loss, 700.0))  # the largest exponent of a float

    @property
    def bits_per_byte(self) -> float:
        """-log2 p of all texts, divided by their bytes: a bound of their compression."""
        return self.nll_nats / math.log(2) / max(self.bytes, 1)
