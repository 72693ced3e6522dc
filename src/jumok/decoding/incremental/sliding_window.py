"""Generation beyond `max_length`: when the window is full, its newer half is encoded again.

Shapes: B rows, T new tokens, V vocabulary.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from jumok.decoding.incremental.decoder import CausalLMDecoder, IncrementalDecoder, SupportsTopK
from jumok.models.heads import LanguageModel


class SlidingWindowDecoder:
    """An `IncrementalDecoder` of unlimited length, for prompts of one length.

    Up to the model's `max_length` it is a `CausalLMDecoder`. Then the older half is discarded and
    positions restart at 0, so each token is read at most twice. `make_decoder(capacity)` makes the
    decoder of a window; None makes a `CausalLMDecoder`.

    >>> from jumok.models import TransformerConfig
    >>> config = TransformerConfig(
    ...     vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1, max_length=4
    ... )
    >>> decoder = SlidingWindowDecoder(LanguageModel(config))
    >>> tuple(decoder.step(torch.tensor([[4, 5, 6, 7, 8]])).shape), decoder.length
    ((1, 10), 5)
    """

    def __init__(
        self, model: LanguageModel, make_decoder: Callable[[int], IncrementalDecoder] | None = None
    ) -> None:
        self._make_decoder = make_decoder or (
            lambda capacity: CausalLMDecoder(model, capacity=capacity)
        )
        self._capacity = model.decoder.embedding.max_length
        self.vocabulary_size = model.decoder.embedding.tokens.num_embeddings
        self._ids: Tensor | None = None  # (B, all tokens read)
        self._discarded = 0  # the number of oldest tokens that left the window
        self._decoder = self._new_decoder()
        if isinstance(self._decoder, SupportsTopK):
            self.top_k = self._top_k  # then this is one as well, with the same numbers

    @property
    def length(self) -> int:
        """Positions read so far, discarded ones included."""
        return 0 if self._ids is None else self._ids.shape[1]

    def step(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> (B, V) float32."""
        unread = self._unread(ids)  # may replace the decoder
        return self._decoder.step(unread)

    def _top_k(self, ids: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k best tokens of a step: log-probabilities and ids, (B, k)."""
        unread = self._unread(ids)
        decoder = self._decoder
        assert isinstance(decoder, SupportsTopK)  # as the first one
        return decoder.top_k(unread, k)

    def step_all(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> (B, T, V) float32, of half a window at most where the window slides."""
        T = ids.shape[1]
        slides = self.length + T - self._discarded > self._capacity
        assert self._half >= T or not slides  # speculative decoding reads a few tokens at once
        unread = self._unread(ids)  # may replace the decoder
        return self._decoder.step_all(unread)[:, -T:]

    def reorder(self, rows: Tensor) -> None:
        """Keep these rows (B') int64, in this order."""
        if self._ids is not None:
            self._ids = self._ids[rows]
            self._decoder.reorder(rows)

    def rewind(self, tokens: int) -> None:
        """Remove the newest `tokens` positions of every row."""
        if tokens == 0:
            return
        assert self._ids is not None
        assert tokens <= self.length
        n_read = self._discarded + self._decoder.length
        self._ids = self._ids[:, :-tokens]
        if self.length < self._discarded:  # discarded tokens must be read again
            self._discarded, self._decoder = max(self.length - self._half, 0), self._new_decoder()
        elif n_read > self.length:
            self._decoder.rewind(n_read - self.length)

    @property
    def _half(self) -> int:
        return max(self._capacity // 2, 1)

    def _new_decoder(self) -> IncrementalDecoder:
        return self._make_decoder(self._capacity)

    def _unread(self, ids: Tensor) -> Tensor:
        """Append the tokens; return those the model has to read."""
        self._ids = ids if self._ids is None else torch.cat([self._ids, ids], 1)
        if self.length - self._discarded > self._capacity:
            self._discarded, self._decoder = self.length - self._half, self._new_decoder()
        return self._ids[:, self._discarded + self._decoder.length :]
