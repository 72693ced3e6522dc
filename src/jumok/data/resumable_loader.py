"""A loader whose state is two numbers, from which it resumes exactly."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

B = TypeVar("B", covariant=True)


class Epoch(Protocol[B]):
    """The batches of one pass over the data, each built on access."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> B: ...


@dataclass(frozen=True)
class LoaderState:
    """The number of completed epochs, and of completed batches of the current one."""

    epoch: int = 0
    batch: int = 0


class ResumableLoader(Generic[B]):
    """An endless stream of batches, epoch after epoch, from any state.

    `make_epoch(number)` must be a pure function of the number, so that a loader with an old state
    continues as if it had not been interrupted.

    >>> loader = ResumableLoader(lambda number: [f"{number}a", f"{number}b"])
    >>> batches = iter(loader)
    >>> next(batches), next(batches), next(batches), loader.state
    ('0a', '0b', '1a', LoaderState(epoch=1, batch=1))
    >>> next(iter(ResumableLoader(lambda number: [f"{number}a", f"{number}b"], loader.state)))
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
        """The current epoch."""
        if self._number != self.state.epoch:
            self._current = self._make_epoch(self.state.epoch)
            self._number = self.state.epoch
        return self._current

    @property
    def epoch_progress(self) -> float:
        """The number of passes over the data, with a fraction for the current one."""
        epoch, batch = self.state.epoch, self.state.batch
        return epoch + batch / len(self.epoch) if batch else float(epoch)  # does not build an epoch

    def __iter__(self) -> Iterator[B]:
        while True:
            yield from self.next_batches(range(1), 1)

    def next_batches(self, selected: range, n: int) -> list[B]:
        """The selected ones of the next n batches; the others are skipped without being built.

        >>> loader = ResumableLoader(lambda number: [f"{number}a", f"{number}b"])
        >>> loader.next_batches(range(1, 3), 4), loader.state
        (['0b', '1a'], LoaderState(epoch=2, batch=0))
        """
        batches = []
        for number in range(n):
            if number in selected:
                batches.append(self.epoch[self.state.batch])
            at = LoaderState(self.state.epoch, self.state.batch + 1)
            self.state = LoaderState(at.epoch + 1) if at.batch >= len(self.epoch) else at
        return batches
