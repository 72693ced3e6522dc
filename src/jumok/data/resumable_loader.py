"""A loader whose place can be written down in two numbers and found again exactly."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

B = TypeVar("B", covariant=True)


class Epoch(Protocol[B]):
    """The batches of one pass over the data, each made when it is asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> B: ...


@dataclass(frozen=True)
class LoaderState:
    """So many whole epochs are done, and so many batches of the one under way."""

    epoch: int = 0
    batch: int = 0


class ResumableLoader(Generic[B]):
    """Batches without end, epoch after epoch, from any position.

    `make_epoch(number)` must be a pure function of the number: then a loader set to an old
    position goes on as if it had never stopped.

    >>> loader = Loader(lambda number: [f"{number}a", f"{number}b"])
    >>> batches = iter(loader)
    >>> next(batches), next(batches), next(batches), loader.position
    ('0a', '0b', '1a', Position(epoch=1, batch=1))
    >>> next(iter(Loader(lambda number: [f"{number}a", f"{number}b"], loader.position)))
    '1b'
    """

    def __init__(
        self, make_epoch: Callable[[int], Epoch[B]], position: LoaderState | None = None
    ) -> None:
        self._make_epoch = make_epoch
        self._number = -1
        self.state = position or LoaderState()

    @property
    def epoch(self) -> Epoch[B]:
        """The epoch under way."""
        if self._number != self.state.epoch:
            self._current = self._make_epoch(self.state.epoch)
            self._number = self.state.epoch
        return self._current

    @property
    def epoch_progress(self) -> float:
        """How many passes over the data are done, as a fraction."""
        epoch, batch = self.state.epoch, self.state.batch
        return epoch + batch / len(self.epoch) if batch else float(epoch)  # makes no new epoch

    def __iter__(self) -> Iterator[B]:
        while True:
            yield from self.next_batches(range(1), 1)

    def next_batches(self, selected: range, n: int) -> list[B]:
        """Those of the next n batches that are wanted; the others are passed over, never made.

        >>> loader = Loader(lambda number: [f"{number}a", f"{number}b"])
        >>> loader.take(range(1, 3), 4), loader.position
        (['0b', '1a'], Position(epoch=2, batch=0))
        """
        batches = []
        for number in range(n):
            if number in selected:
                batches.append(self.epoch[self.state.batch])
            at = LoaderState(self.state.epoch, self.state.batch + 1)
            self.state = LoaderState(at.epoch + 1) if at.batch >= len(self.epoch) else at
        return batches
