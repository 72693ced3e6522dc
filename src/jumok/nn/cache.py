"""What a stack remembers while text is written token by token: nothing is computed twice.

Shapes: B rows being written, N sources, H heads, S positions remembered, K width of one head.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat

import torch
from torch import Tensor

KeysValues = tuple[Tensor, Tensor]  # 2 x (B, H, S, K)

INITIAL_CAPACITY = (
    32  # positions a cache makes room for at first; the room doubles when they are full
)


class KeyValueCache:
    """The keys and values one layer has already computed: at most `room` positions of them.

    A cache belongs to one request: the decoding loop makes it and hands it in. Modules keep no
    state of their own, so one model serves many requests. Memory is taken as positions come, and
    doubled when they are more; `room` is a promise, not a size.

    >>> cache = KeyValueCache(room=4)
    >>> prompt = torch.zeros(1, 2, 3, 8)
    >>> k, v = cache.extend(prompt, prompt)
    >>> k, v = cache.extend(torch.ones(1, 2, 1, 8), torch.ones(1, 2, 1, 8))
    >>> cache.length, tuple(k.shape)
    (4, (1, 2, 4, 8))
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.length = 0
        self.keys_values: KeysValues | None = None  # 2 x (B or more, H, S or more, K)
        self.cross: KeysValues | None = None  # 2 x (N, H, S, K), of the sources

    def update(self, k: Tensor, v: Tensor) -> KeysValues:
        """Remember new positions (B, H, T, K); return all of them (self-attention)."""
        new = slice(self.length, self.length + k.shape[2])
        if new.stop > self.capacity:
            raise ValueError(
                f"{new.stop} positions do not fit a cache with room for {self.capacity}; "
                "make it with more room"
            )
        if self.keys_values is None or new.stop > self.keys_values[0].shape[2]:
            S = min(max(2 * self.length, new.stop, INITIAL_CAPACITY), self.capacity)
            self.keys_values = (self._wider(k, S, 0), self._wider(v, S, 1))
        B = k.shape[0]
        for kept, fresh in zip(self.keys_values, (k, v), strict=True):
            kept[:B, :, new] = fresh
        self.length = new.stop
        return self.keys_values[0][:B, :, : self.length], self.keys_values[1][:B, :, : self.length]

    def _wider(self, like: Tensor, S: int, which: int) -> Tensor:
        """Memory for S positions of B rows, with what is remembered already copied in."""
        B, H, _, K = like.shape
        wider = like.new_empty(B, H, S, K)
        if self.keys_values is not None:
            wider[:, :, : self.length] = self.keys_values[which][:B, :, : self.length]
        return wider

    def cross_keys_values(self, make: Callable[[], KeysValues]) -> KeysValues:
        """Compute once, then repeat (cross-attention: the source does not change)."""
        if self.cross is None:
            self.cross = make()
        return self.cross

    def select(self, rows: Tensor) -> None:
        """Go on with these rows alone, in this order: row i continues what was row rows[i].

        rows (B') int64, each with a source of its own. A beam search repeats rows; a finished
        sentence is left out.
        """
        self.select_rows(rows)
        self.select_memory(rows)

    def select_rows(self, rows: Tensor, spare: Tensor | None = None) -> Tensor | None:
        """The same for what was written alone: only the positions in use are copied.

        They are copied into `spare` when it is large enough; returned is the memory that is free
        now, the spare of the next.
        """
        if self.keys_values is None:
            return spare
        chosen = []
        for old in self.keys_values:
            if spare is not None and _fits(spare, old, len(rows)):
                new = spare
            else:
                new = old.new_empty(max(len(rows), len(old)), *old.shape[1:])
            used = slice(0, self.length)
            torch.index_select(old[:, :, used], 0, rows, out=new[: len(rows), :, used])
            chosen.append(new)
            spare = old
        self.keys_values = chosen[0], chosen[1]
        return spare

    def select_memory(self, sources: Tensor) -> None:
        """Go on with these sources (N') int64 alone, in this order."""
        if self.cross is not None:
            self.cross = self.cross[0][sources], self.cross[1][sources]

    def rewind(self, positions: int) -> None:
        """Forget the newest positions."""
        self.length -= positions


def _fits(spare: Tensor, old: Tensor, rows: int) -> bool:
    """Whether `rows` rows of what `old` holds could be copied into `spare`."""
    return (
        len(spare) >= rows
        and spare.shape[1:] == old.shape[1:]
        and spare.dtype == old.dtype
        and spare.device == old.device
    )


class NoCache(KeyValueCache):
    """Remembers nothing: training, and every encoder."""

    def update(self, k: Tensor, v: Tensor) -> KeysValues:
        """The new positions alone."""
        return k, v

    def cross_keys_values(self, make: Callable[[], KeysValues]) -> KeysValues:
        """Compute again every time."""
        return make()


NO_CACHE = NoCache(capacity=0)


class DecoderCache:
    """One cache for each layer of a stack; `length` positions are in it already."""

    def __init__(self, caches: Sequence[KeyValueCache]) -> None:
        self.caches = caches
        self.buffer: Tensor | None = None  # memory free for the next reordering

    @classmethod
    def with_capacity(cls, n_layers: int, capacity: int) -> "DecoderCache":
        """Fresh caches for `n_layers` layers and `room` positions."""
        return cls([KeyValueCache(capacity) for _ in range(n_layers)])

    def layers(self, n_layers: int) -> Iterable[KeyValueCache]:
        """The caches of a stack with `n_layers` layers, first layer first."""
        if n_layers != len(self.caches):
            raise ValueError(
                f"{len(self.caches)} caches do not fit {n_layers} layers; make one for each"
            )
        return self.caches

    @property
    def length(self) -> int:
        """How many positions are remembered."""
        return self.caches[0].length if self.caches else 0

    def select(self, rows: Tensor) -> None:
        """Go on with these rows alone, in every layer."""
        self.select_rows(rows)
        self.select_memory(rows)

    def select_rows(self, rows: Tensor) -> None:
        """Go on with these rows (B') int64 of what was written; the sources stay.

        Each layer's keys are copied into memory the copy before left free: a step takes none.
        """
        for cache in self.caches:
            self.buffer = cache.select_rows(rows, self.buffer)

    def select_memory(self, sources: Tensor) -> None:
        """Go on with these sources (N') int64 alone, in every layer.

        Each then belongs to B / N' rows that stand side by side.
        """
        for cache in self.caches:
            cache.select_memory(sources)

    def rewind(self, positions: int) -> None:
        """Forget the newest positions, in every layer."""
        if not 0 <= positions <= self.length:
            raise ValueError(
                f"{positions} positions cannot be forgotten of {self.length}; name fewer"
            )
        for cache in self.caches:
            cache.rewind(positions)


class NoDecoderCache(DecoderCache):
    """Remembers nothing, for any number of layers."""

    def __init__(self) -> None:
        super().__init__([])

    def layers(self, n_layers: int) -> Iterable[KeyValueCache]:
        """Nothing to remember in, for each layer."""
        return repeat(NO_CACHE, n_layers)


NO_DECODER_CACHE = NoDecoderCache()
