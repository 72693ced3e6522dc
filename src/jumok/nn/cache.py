"""Key-value caches for incremental decoding: each position is projected only once.

Shapes: B rows that are generated, N sources, H heads, S cached positions, K width of one head.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Protocol

import torch
from torch import Tensor

from jumok.nn.attention import KeysValues

INITIAL_CAPACITY = 32  # positions; a full cache doubles


class LayerCache(Protocol):
    """What a layer uses of a cache."""

    def update(self, k: Tensor, v: Tensor) -> KeysValues:
        """Append the keys and values (B, H, T, K) of new positions; return those of all."""

    def cross_keys_values(self, project: Callable[[], KeysValues]) -> KeysValues:
        """The keys and values of the memory, for cross-attention."""


class StackCache(Protocol):
    """What a stack uses of a cache: the number of cached positions and one cache per layer."""

    @property
    def length(self) -> int:
        """Positions cached so far."""

    def layers(self, n_layers: int) -> Iterable[LayerCache]:
        """The caches of `n_layers` layers, first layer first."""


class KeyValueCache:
    """The keys and values that one layer has computed, of at most `capacity` positions.

    A cache belongs to one request: the decoding loop creates it and passes it in. Modules hold no
    request state, so one model serves many requests. Memory is allocated as positions arrive and
    doubles when it is full; `capacity` is a limit, not an allocation.

    >>> cache = KeyValueCache(capacity=4)
    >>> prompt = torch.zeros(1, 2, 3, 8)
    >>> k, v = cache.update(prompt, prompt)
    >>> k, v = cache.update(torch.ones(1, 2, 1, 8), torch.ones(1, 2, 1, 8))
    >>> cache.length, tuple(k.shape)
    (4, (1, 2, 4, 8))
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.length = 0
        self.keys_values: KeysValues | None = None  # 2 x (B or more, H, S or more, K)
        self.cross: KeysValues | None = None  # 2 x (N, H, S, K), of the sources

    def update(self, k: Tensor, v: Tensor) -> KeysValues:
        """Append new positions (B, H, T, K); return all positions (self-attention).

        Raises ValueError beyond `capacity`.
        """
        new = slice(self.length, self.length + k.shape[2])
        if new.stop > self.capacity:
            raise ValueError(
                f"a cache of capacity {self.capacity} must hold at most {self.capacity} positions, "
                f"got {new.stop}; create it with a larger capacity"
            )
        if self.keys_values is None or new.stop > self.keys_values[0].shape[2]:
            S = min(max(2 * self.length, new.stop, INITIAL_CAPACITY), self.capacity)
            self.keys_values = (self._grown(k, S, 0), self._grown(v, S, 1))
        B = k.shape[0]
        for cached, fresh in zip(self.keys_values, (k, v), strict=True):
            cached[:B, :, new] = fresh
        self.length = new.stop
        return self.keys_values[0][:B, :, : self.length], self.keys_values[1][:B, :, : self.length]

    def _grown(self, like: Tensor, S: int, which: int) -> Tensor:
        """A tensor for S positions of B rows that begins with the cached positions."""
        B, H, _, K = like.shape
        grown = like.new_empty(B, H, S, K)
        if self.keys_values is not None:
            grown[:, :, : self.length] = self.keys_values[which][:B, :, : self.length]
        return grown

    def cross_keys_values(self, project: Callable[[], KeysValues]) -> KeysValues:
        """Call `project` once, then return the same result (the source does not change)."""
        if self.cross is None:
            self.cross = project()
        return self.cross

    def select(self, rows: Tensor) -> None:
        """Keep these rows only, in this order: row i continues what was row rows[i].

        rows (B') int64, each with its own source. A beam search repeats rows; finished sentences
        are left out.
        """
        self.select_rows(rows)
        self.select_memory(rows)

    def select_rows(self, rows: Tensor, buffer: Tensor | None = None) -> Tensor | None:
        """`select` for the self-attention part only; copies only the positions in use.

        Copies into `buffer` if it is large enough and returns the tensor that is free afterwards:
        the buffer of the next call.
        """
        if self.keys_values is None:
            return buffer
        chosen = []
        for old in self.keys_values:
            if buffer is not None and _fits(buffer, old, len(rows)):
                new = buffer
            else:
                new = old.new_empty(max(len(rows), len(old)), *old.shape[1:])
            used = slice(0, self.length)
            torch.index_select(old[:, :, used], 0, rows, out=new[: len(rows), :, used])
            chosen.append(new)
            buffer = old
        self.keys_values = chosen[0], chosen[1]
        return buffer

    def select_memory(self, sources: Tensor) -> None:
        """Keep these sources (N') int64 only, in this order (cross-attention)."""
        if self.cross is not None:
            self.cross = self.cross[0][sources], self.cross[1][sources]

    def rewind(self, positions: int) -> None:
        """Drop the newest positions."""
        self.length -= positions


def _fits(buffer: Tensor, old: Tensor, rows: int) -> bool:
    """Whether `buffer` can hold `rows` rows of `old`."""
    return (
        len(buffer) >= rows
        and buffer.shape[1:] == old.shape[1:]
        and buffer.dtype == old.dtype
        and buffer.device == old.device
    )


class NoCache:
    """Caches nothing: for training and for encoders."""

    def update(self, k: Tensor, v: Tensor) -> KeysValues:
        """The new positions."""
        return k, v

    def cross_keys_values(self, project: Callable[[], KeysValues]) -> KeysValues:
        """Call `project` every time."""
        return project()


NO_CACHE = NoCache()


class DecoderCache:
    """One cache for each layer of a stack; all hold the same number of positions.

    >>> cache = DecoderCache.with_capacity(n_layers=2, capacity=16)
    >>> cache.length, len(cache.layers(2))
    (0, 2)
    """

    def __init__(self, caches: Sequence[KeyValueCache]) -> None:
        self.caches = caches
        self.buffer: Tensor | None = None  # reused by the next reordering

    @classmethod
    def with_capacity(cls, n_layers: int, capacity: int) -> "DecoderCache":
        """Empty caches for `n_layers` layers, each of `capacity` positions."""
        return cls([KeyValueCache(capacity) for _ in range(n_layers)])

    def layers(self, n_layers: int) -> Iterable[LayerCache]:
        """The caches of `n_layers` layers, first layer first. Raises ValueError for others."""
        if n_layers != len(self.caches):
            raise ValueError(
                f"a stack of {n_layers} layers must have {n_layers} caches, "
                f"got {len(self.caches)}; create one for each layer"
            )
        return self.caches

    @property
    def length(self) -> int:
        """Positions cached so far."""
        return self.caches[0].length if self.caches else 0

    def select(self, rows: Tensor) -> None:
        """Keep these rows only, in every layer."""
        self.select_rows(rows)
        self.select_memory(rows)

    def select_rows(self, rows: Tensor) -> None:
        """Keep these generated rows (B') int64 only; the sources stay.

        Each layer's keys are copied into the tensor that the previous copy freed, so a decoding
        step allocates nothing.
        """
        for cache in self.caches:
            self.buffer = cache.select_rows(rows, self.buffer)

    def select_memory(self, sources: Tensor) -> None:
        """Keep these sources (N') int64 only, in every layer.

        Each source then belongs to B / N' consecutive rows.
        """
        for cache in self.caches:
            cache.select_memory(sources)

    def rewind(self, positions: int) -> None:
        """Drop the newest positions in every layer. Raises ValueError for more than are cached."""
        if not 0 <= positions <= self.length:
            raise ValueError(
                f"positions must be between 0 and {self.length}, the number of cached positions, "
                f"got {positions}; drop fewer"
            )
        for cache in self.caches:
            cache.rewind(positions)


class NoDecoderCache:
    """Caches nothing, for any number of layers."""

    length = 0

    def layers(self, n_layers: int) -> Iterable[LayerCache]:
        """`NO_CACHE` for each layer."""
        return repeat(NO_CACHE, n_layers)


NO_DECODER_CACHE = NoDecoderCache()
