"""Ensemble decoding: several decoders, of whose probabilities the mean is used.

Shapes: M decoders, B rows, T new tokens, V vocabulary.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from jumok.decoding.incremental.decoder import IncrementalDecoder
from jumok.errors import DecodingError


class EnsembleDecoder:
    """p(y) = 1/M sum_m p_m(y): the decoders have the same inputs and may be of different classes.

    >>> from jumok.decoding.incremental.decoder import CausalLMDecoder
    >>> from jumok.models import LanguageModel, TransformerConfig
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> decoders = [CausalLMDecoder(LanguageModel(config), capacity=8) for _ in range(3)]
    >>> logits = EnsembleDecoder(decoders).step(torch.tensor([[4, 5]]))
    >>> tuple(logits.shape), round(logits.softmax(-1).sum().item(), 4)
    ((1, 10), 1.0)

    Raises InputError for no decoder, and for vocabularies of several sizes.
    """

    def __init__(self, decoders: Sequence[IncrementalDecoder]) -> None:
        sizes = sorted({decoder.vocabulary_size for decoder in decoders})
        if len(sizes) != 1:
            raise DecodingError(
                "decoding.unusable_ensemble",
                "an ensemble must have at least one decoder and one vocabulary size, got "
                "{n_decoders} decoders with vocabularies of {sizes} tokens",
                n_decoders=len(decoders),
                sizes=sizes,
            )
        self.vocabulary_size = sizes[0]
        self._decoders = decoders

    @property
    def length(self) -> int:
        """Positions in the cache."""
        return self._decoders[0].length

    def step(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> logits (B, V) float32, whose softmax is the mean."""
        return self._mean(lambda decoder: decoder.step(ids))

    def step_all(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> logits (B, T, V) float32."""
        return self._mean(lambda decoder: decoder.step_all(ids))

    def _mean(self, logits: Callable[[IncrementalDecoder], Tensor]) -> Tensor:
        """log p; normalised by the mean of the norms, so copies of one model give its logits."""
        every = torch.stack([logits(decoder) for decoder in self._decoders])  # (M, ..., V)
        norms = every.logsumexp(-1, keepdim=True)
        return (every - norms).logsumexp(0) - math.log(len(every)) + norms.mean(0)

    def reorder(self, rows: Tensor) -> None:
        """Keep these rows (B') int64, in this order, in every decoder."""
        for decoder in self._decoders:
            decoder.reorder(rows)

    def rewind(self, tokens: int) -> None:
        """Remove the newest `tokens` positions from every decoder."""
        for decoder in self._decoders:
            decoder.rewind(tokens)
