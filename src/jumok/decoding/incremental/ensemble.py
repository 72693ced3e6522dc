"""An ensemble: several writers that write one text together, by the mean of their probabilities.

Shapes: M writers, B rows being written, T new tokens, V vocabulary.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from jumok.decoding.incremental.decoder import IncrementalDecoder
from jumok.errors import InputError


class EnsembleDecoder:
    """p(y) = 1/M sum_m p_m(y): each writer has read the same texts, and may be of another kind.

    >>> from jumok.decoding.incremental.decoder import CausalLMDecoder
    >>> from jumok.models import LanguageModel, TransformerConfig
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> writers = [CausalLMDecoder(LanguageModel(config), room=8) for _ in range(3)]
    >>> logits = EnsembleDecoder(writers).step(torch.tensor([[4, 5]]))
    >>> tuple(logits.shape), round(logits.softmax(-1).sum().item(), 4)
    ((1, 10), 1.0)
    """

    def __init__(self, decoders: Sequence[IncrementalDecoder]) -> None:
        sizes = sorted({writer.vocabulary_size for writer in decoders})
        if len(sizes) != 1:
            raise InputError(
                f"{len(decoders)} writers with vocabularies of {sizes} tokens came; give at least "
                "one, and all with the same vocabulary"
            )
        self.vocabulary_size = sizes[0]
        self._decoders = decoders

    @property
    def length(self) -> int:
        """Positions remembered so far."""
        return self._decoders[0].length

    def step(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> logits (B, V) float32, whose softmax is the mean."""
        return self._mean(lambda writer: writer.step(ids))

    def step_all(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> logits (B, T, V) float32."""
        return self._mean(lambda writer: writer.step_all(ids))

    def _mean(self, logits: Callable[[IncrementalDecoder], Tensor]) -> Tensor:
        """log p, and for a zero the mean of theirs: so a model beside itself is that model."""
        every = torch.stack([logits(writer) for writer in self._decoders])  # (M, ..., V)
        norms = every.logsumexp(-1, keepdim=True)
        return (every - norms).logsumexp(0) - math.log(len(every)) + norms.mean(0)

    def reorder(self, rows: Tensor) -> None:
        """Go on with these rows (B') int64, in every writer."""
        for writer in self._decoders:
            writer.reorder(rows)

    def rewind(self, tokens: int) -> None:
        """Forget the newest `tokens` positions, in every writer."""
        for writer in self._decoders:
            writer.rewind(tokens)
