"""Incremental decoders: next-token logits for a batch of rows, one step after another.

Every search (greedy, beam, sampling) uses this protocol, whatever computes the logits.
Shapes: B rows, N sources (one row or several beams each), S source tokens, T new tokens,
V vocabulary.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from jumok.decoding.callbacks import OnToken
from jumok.decoding.config import DecodingConfig
from jumok.decoding.hypothesis import Hypothesis
from jumok.decoding.inputs import GenerationInputs
from jumok.decoding.processors import Processor
from jumok.models.encoder_decoder import EncoderDecoder
from jumok.models.heads import LanguageModel
from jumok.nn.cache import DecoderCache
from jumok.nn.hooks import HookPoint, shared_copy
from jumok.nn.masks import positions_from_mask

GenerativeModel = EncoderDecoder | LanguageModel


class IncrementalDecoder(Protocol):
    """A model and the cache of one request: B rows that are decoded together.

    Greedy search needs no more than this:

    >>> from jumok.models import TransformerConfig
    >>> small = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> decoder: IncrementalDecoder = CausalLMDecoder(LanguageModel(small).eval(), capacity=8)
    >>> ids = torch.tensor([[4, 5]])
    >>> for _ in range(3):
    ...     ids = decoder.step(ids).argmax(-1, keepdim=True)  # (1, 1)
    >>> decoder.length  # the prompt, and all but the newest token
    4
    """

    @property
    def vocabulary_size(self) -> int:
        """V: the number of tokens, which logits have as their last dimension."""

    @property
    def length(self) -> int:
        """Positions in the cache, padding included."""

    def step(self, ids: Tensor) -> Tensor:
        """New tokens (B, T) int64 -> logits (B, V) float32 of the token after the last."""

    def step_all(self, ids: Tensor) -> Tensor:
        """New tokens (B, T) int64 -> logits (B, T, V) float32 of the token after each."""

    def reorder(self, rows: Tensor) -> None:
        """Keep these rows (B') int64, in this order: row i becomes a copy of row rows[i].

        Beams repeat rows; finished rows are left out.
        """

    def rewind(self, tokens: int) -> None:
        """Remove the newest `tokens` positions of every row from the cache."""


@runtime_checkable
class SupportsAttention(Protocol):
    """A decoder that returns its cross-attention weights."""

    def attention(self) -> Tensor:
        """The weights of the newest token of each row, 0 on padding: (B, S) float32."""

    def source_mask(self) -> Tensor:
        """True at the real tokens of all sources, finished ones included: (N, S) bool."""


@runtime_checkable
class SupportsTopK(Protocol):
    """A decoder that finds the k best tokens itself, without returning all logits."""

    def top_k(self, ids: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """A step's k best tokens, best first: log-probabilities (B, k) and ids (B, k) int64.

        Of equal ones the smallest id comes first.
        """


@runtime_checkable
class SupportsSearch(Protocol):
    """A decoder that searches by itself, in C++."""

    def search(
        self,
        inputs: GenerationInputs,
        config: DecodingConfig,
        processors: Sequence[Processor],
        on_token: OnToken | None,
    ) -> list[list[Hypothesis]] | None:
        """What `generate` returns; None: search step by step."""


class _CachedDecoder(ABC):
    """Abstract: a decoder with the cache of a PyTorch model."""

    _cache: DecoderCache

    @property
    def length(self) -> int:
        """Positions in the cache, padding included."""
        return self._cache.length

    def step(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> (B, V) float32."""
        return self._logits(ids, slice(-1, None))[:, 0]

    def step_all(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> (B, T, V) float32."""
        return self._logits(ids, slice(None))

    @abstractmethod
    def _logits(self, ids: Tensor, positions: slice) -> Tensor:
        """The logits after these positions of the new tokens."""

    def rewind(self, tokens: int) -> None:
        """Remove the newest `tokens` positions of every row from the cache."""
        self._cache.rewind(tokens)


class Seq2SeqDecoder(_CachedDecoder):
    """An encoder-decoder with encoded sources; it decodes at most `capacity` tokens.

    The first input of `step` is the token that starts a target ([BOS]). Beams of one source are
    adjacent rows and share its keys and values.

    >>> from jumok.models import TransformerConfig
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> decoder = Seq2SeqDecoder(EncoderDecoder(config), torch.tensor([[4, 5, 6]]), capacity=8)
    >>> tuple(decoder.step(torch.tensor([[2]])).shape), decoder.length
    ((1, 10), 1)
    """

    @torch.inference_mode()
    def __init__(
        self,
        model: EncoderDecoder,
        source: Tensor,
        source_mask: Tensor | None = None,
        *,
        capacity: int,
    ) -> None:
        """source (N, S) int64; source_mask (N, S) bool, None without padding: left or right."""
        self.vocabulary_size = model.decoder.embedding.tokens.num_embeddings
        self._model = model
        self._source_mask = source_mask
        positions = None if source_mask is None else positions_from_mask(source_mask)
        self._memory = model.encode(source, source_mask, positions=positions)  # (N, S, D)
        self._cache = model.decoder.make_cache(capacity)
        self._beams = 1  # adjacent rows for each source

    @torch.inference_mode()
    def _logits(self, ids: Tensor, positions: slice) -> Tensor:
        hidden = self._model.decode(ids, self._memory, self._source_mask, cache=self._cache)
        return self._model.output(hidden[:, positions]).float()  # type: ignore[no-any-return]

    @torch.inference_mode()
    def reorder(self, rows: Tensor) -> None:
        """Keep these rows (B') int64, in this order; adjacent rows of one source share it."""
        owners = rows.div(self._beams, rounding_mode="floor")  # (B',)
        sources, counts = torch.unique_consecutive(owners, return_counts=True)
        shared = bool((counts == counts[0]).all())
        if not shared:
            sources = owners
        self._beams = len(rows) // len(sources)
        self._cache.select_rows(rows)
        if not torch.equal(sources, torch.arange(len(self._memory), device=rows.device)):
            self._cache.select_memory(sources)
            self._memory = self._memory[sources]
            self._source_mask = None if self._source_mask is None else self._source_mask[sources]


class AttentionRecordingDecoder(Seq2SeqDecoder):
    """A Seq2SeqDecoder that also returns cross-attention, the mean of all layers and heads.

    Its hooks are on a shared copy of the model, so the model can be used meanwhile. It is slower:
    the attention is not fused.

    >>> from jumok.models import TransformerConfig
    >>> small = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> model, source = EncoderDecoder(small).eval(), torch.tensor([[4, 5, 6]])
    >>> decoder = AttentionRecordingDecoder(model, source, capacity=4)
    >>> _ = decoder.step(torch.tensor([[2]]))
    >>> tuple(decoder.attention().shape), round(decoder.attention().sum().item(), 4)
    ((1, 3), 1.0)
    """

    def __init__(
        self,
        model: EncoderDecoder,
        source: Tensor,
        source_mask: Tensor | None = None,
        *,
        capacity: int,
    ) -> None:
        """source (N, S) int64; source_mask (N, S) bool, None without padding: left or right."""
        view = shared_copy(model)
        self._weights: list[Tensor] = []  # of the newest step, (N, H, B/N*T, S) for each layer
        for name, point in view.named_modules():
            if isinstance(point, HookPoint) and name.endswith("cross_attention.hook_pattern"):
                point.register_forward_hook(lambda *call: self._weights.append(call[2]))
        super().__init__(view, source, source_mask, capacity=capacity)
        self._all_sources = (
            torch.ones_like(source, dtype=torch.bool) if source_mask is None else source_mask
        )
        self._ids = source[:, :1]  # the tokens (B, T) of the newest step

    def attention(self) -> Tensor:
        """The weights of the newest token of each row, 0 on padding: (B, S) float32."""
        mean = torch.stack(self._weights).mean((0, 2))  # (N, B/N*T, S)
        return mean.view(*self._ids.shape, -1)[:, -1]

    def source_mask(self) -> Tensor:
        """True at the real tokens of all sources, finished ones included: (N, S) bool."""
        return self._all_sources

    def _logits(self, ids: Tensor, positions: slice) -> Tensor:
        self._weights.clear()
        self._ids = ids
        return super()._logits(ids, positions)


class CausalLMDecoder(_CachedDecoder):
    """A language model; at most `capacity` positions, prompts included.

    The first input of `step` are the prompts, padded on the left (`left_pad`); `padding` is the
    number of padding tokens of each. A token's position does not count padding, so distances
    between tokens are those of the text without it.

    >>> from jumok.models import TransformerConfig
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> decoder = CausalLMDecoder(LanguageModel(config), torch.tensor([0, 2]), capacity=8)
    >>> tuple(decoder.step(torch.tensor([[4, 5, 6], [0, 0, 7]])).shape), decoder.length
    ((2, 10), 3)
    """

    def __init__(
        self, model: LanguageModel, padding: Tensor | None = None, *, capacity: int
    ) -> None:
        """padding (B) int64, None if there is none."""
        self.vocabulary_size = model.decoder.embedding.tokens.num_embeddings
        self._model = model
        self._padding = padding
        self._cache = model.decoder.make_cache(capacity)

    @torch.inference_mode()
    def _logits(self, ids: Tensor, positions: slice) -> Tensor:
        start, end = self.length, self.length + ids.shape[1]
        mask = numbers = None
        if self._padding is not None:
            every = torch.arange(end, device=ids.device) - self._padding[:, None]  # (B, S)
            mask = every >= 0
            numbers = every[:, start:].clamp(min=0)  # (B, T)
        hidden = self._model.decoder(ids, mask, positions=numbers, cache=self._cache)
        return self._model.output(hidden[:, positions]).float()  # type: ignore[no-any-return]

    @torch.inference_mode()
    def reorder(self, rows: Tensor) -> None:
        """Keep these rows (B') int64, in this order."""
        self._cache.select(rows)
        self._padding = None if self._padding is None else self._padding[rows]


def left_pad(ids: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The rows with all padding on the left, and the padding of each row: (B, T), (B).

    ids (B, T) int64, mask (B, T) bool, with padding on either side. None if there is no padding.

    >>> ids, mask = torch.tensor([[4, 5, 0], [6, 7, 8]]), torch.tensor([[1, 1, 0], [1, 1, 1]])
    >>> left_pad(ids, mask.bool())
    (tensor([[0, 4, 5],
            [6, 7, 8]]), tensor([1, 0]))
    """
    if mask is None or bool(mask.all()):
        return ids, None
    order = mask.int().argsort(dim=-1, stable=True)  # padding first, the rest in its order
    return ids.gather(-1, order), (~mask).sum(-1)
