"""Writing on beyond the length a model holds: when its window is full, the newer half is read anew.

Shapes: B rows being written, T new tokens, V vocabulary.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from jumok.decoding.incremental.decoder import CausalLMDecoder, IncrementalDecoder
from jumok.errors import InputError
from jumok.models.heads import LanguageModel


class SlidingWindowDecoder:
    """A `Writer` without an end: a language model that goes on from prompts of one length.

    As long as everything fits the model's `max_length` it is a `CausalLMDecoder`. Then the
    older half is forgotten and positions begin anew, so that each token is read twice at most.
    `begin` makes a writer with room for so many tokens; None takes the plain one.

    >>> from jumok.models import TransformerConfig
    >>> config = TransformerConfig(
    ...     vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1, max_length=4
    ... )
    >>> writer = SlidingWindowDecoder(LanguageModel(config))
    >>> tuple(writer.step(torch.tensor([[4, 5, 6, 7, 8]])).shape), writer.length
    ((1, 10), 5)
    """

    def __init__(
        self, model: LanguageModel, make_decoder: Callable[[int], IncrementalDecoder] | None = None
    ) -> None:
        self._make_decoder = make_decoder or (lambda room: CausalLMDecoder(model, capacity=room))
        self._capacity = model.decoder.embedding.max_length
        self.vocabulary_size = model.decoder.embedding.tokens.num_embeddings
        self._ids: Tensor | None = None  # (B, all that was read)
        self._forgotten = 0  # so many of them, the oldest
        self._decoder = self._fresh()

    @property
    def length(self) -> int:
        """Positions read so far, forgotten ones among them."""
        return 0 if self._ids is None else self._ids.shape[1]

    def step(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> (B, V) float32."""
        unread = self._unread(ids)  # may begin a new window
        return self._decoder.step(unread)

    def step_all(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> (B, T, V) float32; InputError for more tokens than half a window."""
        T = ids.shape[1]
        slides = self.length + T - self._forgotten > self._capacity
        if slides and self._half < T:
            raise InputError(
                f"{T} tokens came at once, and a window of {self._capacity} goes on by half; give "
                f"{self._half} or fewer"
            )
        unread = self._unread(ids)
        return self._decoder.step_all(unread)[:, -T:]

    def reorder(self, rows: Tensor) -> None:
        """Go on with these rows (B') int64, in this order."""
        if self._ids is not None:
            self._ids = self._ids[rows]
            self._decoder.reorder(rows)

    def rewind(self, tokens: int) -> None:
        """Forget the newest `tokens` positions of every row."""
        if tokens == 0:
            return
        if self._ids is None or tokens > self.length:
            raise InputError(f"{tokens} tokens cannot be taken back of {self.length}; name fewer")
        known = self._forgotten + self._decoder.length
        self._ids = self._ids[:, :-tokens]
        if self.length < self._forgotten:  # what was forgotten must be read again
            self._forgotten, self._decoder = max(self.length - self._half, 0), self._fresh()
        elif known > self.length:
            self._decoder.rewind(known - self.length)

    @property
    def _half(self) -> int:
        return max(self._capacity // 2, 1)

    def _fresh(self) -> IncrementalDecoder:
        return self._make_decoder(self._capacity)

    def _unread(self, ids: Tensor) -> Tensor:
        """What the model has to read now that these tokens have come."""
        self._ids = ids if self._ids is None else torch.cat([self._ids, ids], 1)
        if self.length - self._forgotten > self._capacity:
            self._forgotten, self._decoder = self.length - self._half, self._fresh()
        return self._ids[:, self._forgotten + self._decoder.length :]
