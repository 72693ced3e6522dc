"""What a stack remembers while text is written token by token: nothing is computed twice.

Shapes: B batch, H heads, S positions remembered, K width of one head.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat

from torch import Tensor

KeysValues = tuple[Tensor, Tensor]  # 2 x (B, H, S, K)


class KeyValueCache:
    """The keys and values one layer has already computed, with room for `room` positions.

    A cache belongs to one request: the decoding loop makes it and hands it in. Modules keep no
    state of their own, so one model serves many requests.

    >>> import torch
    >>> cache = KeyValueCache(room=4)
    >>> prompt = torch.zeros(1, 2, 3, 8)
    >>> k, v = cache.extend(prompt, prompt)
    >>> k, v = cache.extend(torch.ones(1, 2, 1, 8), torch.ones(1, 2, 1, 8))
    >>> cache.length, tuple(k.shape)
    (4, (1, 2, 4, 8))
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self.length = 0
        self.kept: KeysValues | None = None  # 2 x (B, H, room, K)
        self.memory: KeysValues | None = None  # 2 x (B, H, S, K), of the source

    def extend(self, k: Tensor, v: Tensor) -> KeysValues:
        """Remember new positions (B, H, T, K); return all of them (self-attention)."""
        if self.kept is None:
            self.kept = (
                k.new_empty(*k.shape[:2], self.room, k.shape[3]),
                v.new_empty(*v.shape[:2], self.room, v.shape[3]),
            )
        new = slice(self.length, self.length + k.shape[2])
        if new.stop > self.room:
            raise ValueError(
                f"{new.stop} positions do not fit a cache with room for {self.room}; "
                "make it with more room"
            )
        self.kept[0][:, :, new], self.kept[1][:, :, new] = k, v
        self.length = new.stop
        return self.kept[0][:, :, : self.length], self.kept[1][:, :, : self.length]

    def recall(self, make: Callable[[], KeysValues]) -> KeysValues:
        """Compute once, then repeat (cross-attention: the source does not change)."""
        if self.memory is None:
            self.memory = make()
        return self.memory

    def select(self, rows: Tensor) -> None:
        """Go on with these rows alone, in this order: row i continues what was row rows[i].

        rows (B') int64. A beam search repeats rows; a finished sentence is left out.
        """
        if self.kept is not None:
            self.kept = self.kept[0][rows], self.kept[1][rows]
        if self.memory is not None:
            self.memory = self.memory[0][rows], self.memory[1][rows]


class NoCache(KeyValueCache):
    """Remembers nothing: training, and every encoder."""

    def extend(self, k: Tensor, v: Tensor) -> KeysValues:
        """The new positions alone."""
        return k, v

    def recall(self, make: Callable[[], KeysValues]) -> KeysValues:
        """Compute again every time."""
        return make()


NO_CACHE = NoCache(room=0)


class StackCache:
    """One cache for each layer of a stack; `length` positions are in it already."""

    def __init__(self, caches: Sequence[KeyValueCache]) -> None:
        self.caches = caches

    @classmethod
    def with_room(cls, n_layers: int, room: int) -> "StackCache":
        """Fresh caches for `n_layers` layers and `room` positions."""
        return cls([KeyValueCache(room) for _ in range(n_layers)])

    def for_layers(self, n_layers: int) -> Iterable[KeyValueCache]:
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
        for cache in self.caches:
            cache.select(rows)


class NoStackCache(StackCache):
    """Remembers nothing, for any number of layers."""

    def __init__(self) -> None:
        super().__init__([])

    def for_layers(self, n_layers: int) -> Iterable[KeyValueCache]:
        """Nothing to remember in, for each layer."""
        return repeat(NO_CACHE, n_layers)


NO_STACK_CACHE = NoStackCache()
