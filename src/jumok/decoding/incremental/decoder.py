"""A writer: a model in the midst of writing several rows at once, one step after another.

Every way to write (greedy, beam, sampling) runs on this protocol, whatever computes the logits.
Shapes: B rows being written, N sources (one row each, or several beams), S source tokens,
T new tokens, V vocabulary.
"""

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from jumok.models.encoder_decoder import EncoderDecoder
from jumok.models.heads import LanguageModel
from jumok.nn.hooks import HookPoint, shared_copy
from jumok.nn.masks import AttentionMask, positions_from_mask


class IncrementalDecoder(Protocol):
    """A model in the midst of writing B rows at once. It belongs to one request."""

    @property
    def vocabulary_size(self) -> int:
        """V: how many tokens there are to choose from."""

    @property
    def length(self) -> int:
        """Positions remembered so far, padding among them."""

    def step(self, ids: Tensor) -> Tensor:
        """Newest tokens (B, T) int64 -> logits (B, V) float32 of what follows the last."""

    def step_all(self, ids: Tensor) -> Tensor:
        """Newest tokens (B, T) int64 -> logits (B, T, V) float32 of what follows each."""

    def reorder(self, rows: Tensor) -> None:
        """Go on with these rows (B') int64, in this order: row i continues what was rows[i].

        Beams repeat rows; finished rows are left out.
        """

    def rewind(self, tokens: int) -> None:
        """Forget the newest `tokens` positions of every row."""


@runtime_checkable
class SupportsAttention(Protocol):
    """A writer that tells what it attends to."""

    def attention(self) -> Tensor:
        """What the newest token of each row attends to, 0 on padding: (B, S) float32."""

    def source_mask(self) -> Tensor:
        """The real tokens of the sources, as they were at first: (N, S) bool."""


@runtime_checkable
class SupportsTopK(Protocol):
    """A writer that finds the likeliest tokens itself, so that nobody looks through its logits."""

    def top_k(self, ids: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """A step's k likeliest tokens, best first: log-probabilities (B, k) and ids (B, k) int64.

        Of equally likely ones the smallest id comes first.
        """


class Seq2SeqDecoder:
    """An encoder-decoder that has read its sources and now writes; `room` tokens at most.

    The first token given to `step` is the one that begins a target ([BOS]). Beams of one source
    stand side by side and share its keys and values.

    >>> from jumok.models import TransformerConfig
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> writer = Seq2SeqDecoder(EncoderDecoder(config), torch.tensor([[4, 5, 6]]), room=8)
    >>> tuple(writer.step(torch.tensor([[2]])).shape), writer.length
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
        """source (N, S) int64; real (N, S) bool, None without padding: left or right."""
        self.vocabulary_size = model.decoder.embedding.tokens.num_embeddings
        self._model = model
        self._source_mask = source_mask
        mask = AttentionMask.from_padding(source_mask)
        places = None if source_mask is None else positions_from_mask(source_mask)
        self._memory = model.encode(source, mask, positions=places)  # (N, S, D)
        self._cache = model.decoder.make_cache(capacity)
        self._beams = 1  # rows that share a source: rows 0 to share - 1 the first, and so on

    @property
    def length(self) -> int:
        """Positions remembered so far."""
        return self._cache.length

    def step(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> (B, V) float32."""
        return self._logits(ids, slice(-1, None))[:, 0]

    def step_all(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> (B, T, V) float32."""
        return self._logits(ids, slice(None))

    @torch.inference_mode()
    def _logits(self, ids: Tensor, wanted: slice) -> Tensor:
        mask = AttentionMask.from_padding(self._source_mask)
        hidden = self._model.decode(ids, self._memory, mask, cache=self._cache)
        return self._model.output(hidden[:, wanted]).float()  # type: ignore[no-any-return]

    @torch.inference_mode()
    def reorder(self, rows: Tensor) -> None:
        """Go on with these rows (B') int64; rows of one source that stay together share it."""
        owners = rows.div(self._beams, rounding_mode="floor")  # (B',)
        sources, counts = torch.unique_consecutive(owners, return_counts=True)
        together = bool((counts == counts[0]).all())
        if not together:
            sources = owners
        self._beams = len(rows) // len(sources)
        self._cache.select_rows(rows)
        if not torch.equal(sources, torch.arange(len(self._memory), device=rows.device)):
            self._cache.select_memory(sources)
            self._memory = self._memory[sources]
            self._source_mask = None if self._source_mask is None else self._source_mask[sources]

    def rewind(self, tokens: int) -> None:
        """Forget the newest `tokens` positions of every row."""
        self._cache.rewind(tokens)


class AttentionRecordingDecoder:
    """An encoder-decoder that also tells what it attends to, the mean of all layers and heads.

    It watches a view of the model that is its own, so others may use the model meanwhile. It is
    slower: the weights are written out.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        source: Tensor,
        source_mask: Tensor | None = None,
        *,
        capacity: int,
    ) -> None:
        """source (N, S) int64; real (N, S) bool, None without padding: left or right."""
        view = shared_copy(model)
        self._seen: list[Tensor] = []  # the weights of the newest step: a (N, H, B/N*T, S) a layer
        for name, point in view.named_modules():
            if isinstance(point, HookPoint) and name.endswith("cross_attention.hook_pattern"):
                point.register_forward_hook(lambda *passing: self._seen.append(passing[2]))
        self._decoder = Seq2SeqDecoder(view, source, source_mask, capacity=capacity)
        self.vocabulary_size = self._decoder.vocabulary_size
        self._source_mask = (
            torch.ones_like(source, dtype=torch.bool) if source_mask is None else source_mask
        )
        self._asked = source[:, :1]  # the tokens (B, T) of the newest step

    @property
    def length(self) -> int:
        """Positions remembered so far."""
        return self._decoder.length

    def attention(self) -> Tensor:
        """What the newest token of each row attends to, 0 on padding: (B, S) float32."""
        mean = torch.stack(self._seen).mean((0, 2))  # (N, B/N*T, S)
        return mean.view(*self._asked.shape, -1)[:, -1]

    def source_mask(self) -> Tensor:
        """The real tokens of the sources, as they were at first: (N, S) bool."""
        return self._source_mask

    def step(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> (B, V) float32."""
        self._seen.clear()
        self._asked = ids
        return self._decoder.step(ids)

    def step_all(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> (B, T, V) float32."""
        self._seen.clear()
        self._asked = ids
        return self._decoder.step_all(ids)

    def reorder(self, rows: Tensor) -> None:
        """Go on with these rows (B') int64."""
        self._decoder.reorder(rows)

    def rewind(self, tokens: int) -> None:
        """Forget the newest `tokens` positions of every row."""
        self._decoder.rewind(tokens)


class CausalLMDecoder:
    """A language model that goes on from prompts; `room` positions at most, prompts included.

    The prompts are what `step` is given first, padded on the left (`left_pad` makes them so);
    `padding` says how many fillers stand before each. Then a token's position is its place less
    the padding, and distances between tokens are those of the text alone.

    >>> from jumok.models import TransformerConfig
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> writer = CausalLMDecoder(LanguageModel(config), torch.tensor([0, 2]), room=8)
    >>> tuple(writer.step(torch.tensor([[4, 5, 6], [0, 0, 7]])).shape), writer.length
    ((2, 10), 3)
    """

    def __init__(
        self, model: LanguageModel, padding: Tensor | None = None, *, capacity: int
    ) -> None:
        """padding (B) int64, None when there is none."""
        self.vocabulary_size = model.decoder.embedding.tokens.num_embeddings
        self._model = model
        self._padding = padding
        self._cache = model.decoder.make_cache(capacity)

    @property
    def length(self) -> int:
        """Positions remembered so far, padding among them."""
        return self._cache.length

    def step(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> (B, V) float32."""
        return self._logits(ids, slice(-1, None))[:, 0]

    def step_all(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> (B, T, V) float32."""
        return self._logits(ids, slice(None))

    @torch.inference_mode()
    def _logits(self, ids: Tensor, wanted: slice) -> Tensor:
        start, end = self.length, self.length + ids.shape[1]
        mask, positions = AttentionMask(causal=True), None
        if self._padding is not None:
            places = torch.arange(end, device=ids.device) - self._padding[:, None]  # (B, S)
            mask = AttentionMask.from_padding(places >= 0, causal=True)
            positions = places[:, start:].clamp(min=0)  # (B, T)
        hidden = self._model.decoder(ids, mask, positions=positions, cache=self._cache)
        return self._model.output(hidden[:, wanted]).float()  # type: ignore[no-any-return]

    @torch.inference_mode()
    def reorder(self, rows: Tensor) -> None:
        """Go on with these rows (B') int64, in this order."""
        self._cache.select(rows)
        self._padding = None if self._padding is None else self._padding[rows]

    def rewind(self, tokens: int) -> None:
        """Forget the newest `tokens` positions of every row."""
        self._cache.rewind(tokens)


def left_pad(ids: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The same rows with all padding on the left, and how much of it each has: (B, T), (B).

    ids (B, T) int64, real (B, T) bool: wherever the padding stood. None when there is none.

    >>> ids, real = torch.tensor([[4, 5, 0], [6, 7, 8]]), torch.tensor([[1, 1, 0], [1, 1, 1]])
    >>> left_pad(ids, real.bool())
    (tensor([[0, 4, 5],
            [6, 7, 8]]), tensor([1, 0]))
    """
    if mask is None or bool(mask.all()):
        return ids, None
    order = mask.int().argsort(dim=-1, stable=True)  # padding first, the rest as it stood
    return ids.gather(-1, order), (~mask).sum(-1)
