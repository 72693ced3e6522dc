"""Checkpoints written behind the back of a training: it goes on while a copy is committed.

A thread copies the tensors in memory, and then writes the copy. Forward and backward passes leave
weights, moments and averages as they are, so they need not wait for the copy; only what changes
those, the optimizer, does (`wait_for_staging`), and by then it is there. Sums, writing and waiting
for the disk stop nobody. One commit is under way at most, so they come in order and nothing piles
up.

The thread calls no operation of torch that would share its work out: OpenMP would give it workers
of its own, and as soon as there are more of them than cores, those of the training sleep between
its operations instead of waiting awake (libgomp's GOMP_SPINCOUNT): a small model learnt at less
than half the speed, to the end of its training (docs/LOG.md).
"""

from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import suppress
from types import TracebackType
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jumok.errors import JumokError
from jumok.training.checkpoints.manifest import JSON
from jumok.training.checkpoints.store import CheckpointWriter, States


class AsyncCheckpointWriter:
    """Commits to `store` in the background; leaving the `with` waits for the last one.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from jumok.training.checkpoints.store import CheckpointStore
    >>> weight = torch.ones(2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = CheckpointStore(Path(folder))
    ...     with AsyncCheckpointWriter(store) as behind:
    ...         behind.commit(40, {"model": {"weight": weight}}, {})
    ...         loss = weight.sum()  # the training goes on at once
    ...         behind.wait_for_staging()
    ...         _ = weight.zero_()
    ...     store.checkpoint(40).load()
    {'model': {'weight': tensor([1., 1.])}}
    """

    def __init__(self, store: CheckpointWriter) -> None:
        self.store = store
        self._copies: dict[str, dict[str, Tensor]] = {}  # kept: new memory is slow to write to
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="jumok-commit")
        self._copying: Future[States] | None = None
        self._under_way: Future[object] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for the last commit. Raises what it failed with, unless something failed before."""
        try:
            with suppress(*([JumokError] if error is not None else [])):
                self.wait()
        finally:
            self._thread.shutdown()

    @property
    def in_progress(self) -> bool:
        """Whether a commit is being written."""
        return self._under_way is not None and not self._under_way.done()

    @property
    def failed(self) -> bool:
        """Whether the last commit is over and failed; `wait` tells how."""
        last = self._under_way
        return last is not None and last.done() and last.exception() is not None

    def allocate(self, states: States) -> None:
        """Make room for copies of such tensors, in the background: new memory is slow to fill."""
        self.wait()
        self._under_way = self._thread.submit(self._make_room, states)

    def commit(
        self,
        step: int,
        states: States,
        metadata: Mapping[str, JSON],
        protect: Collection[int] = (),
    ) -> None:
        """Begin a commit of the tensors as they are now; see `CheckpointStore.commit`.

        They may be read by all, and changed by nobody until `wait_for_staging` returns. Waits for the
        commit before. Raises what that one failed with; then this one is not begun.
        """
        self.wait()
        now = {state: dict(tensors) for state, tensors in states.items()}
        copying = self._copying = self._thread.submit(self._copied, now)
        self._under_way = self._thread.submit(
            lambda: self.store.commit(step, copying.result(), metadata, protect)
        )

    def wait_for_staging(self) -> None:
        """Until the tensors of the last commit are copied; from then on they may change."""
        copying, self._copying = self._copying, None
        if copying is not None:
            wait_for([copying])  # what it fails with, the commit fails with

    def wait(self) -> None:
        """Until everything begun is safe on disk. Raises what `CheckpointStore.commit` raised."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()

    @torch.no_grad()
    def _copied(self, states: States) -> States:
        """The tensors on the CPU, in the same memory each time."""
        self._make_room(states)
        return {
            state: {name: _copied(self._copies[state][name], t) for name, t in tensors.items()}
            for state, tensors in states.items()
        }

    def _make_room(self, states: States) -> None:
        """Memory for each of these tensors, written to once where it is new."""
        for state, tensors in states.items():
            kept = self._copies.setdefault(state, {})
            for name, tensor in tensors.items():
                room = kept.get(name)
                if room is None or room.shape != tensor.shape or room.dtype != tensor.dtype:
                    kept[name] = torch.empty(tensor.shape, dtype=tensor.dtype)
                    _as_numpy(kept[name]).fill(0)


def _copied(room: Tensor, tensor: Tensor) -> Tensor:
    """`room`, with what is in `tensor`; between memories of the CPU numpy copies, on one core."""
    if tensor.device.type != "cpu":
        return room.copy_(tensor)
    np.copyto(_as_numpy(room), _as_numpy(tensor))
    return room


def _as_numpy(tensor: Tensor) -> NDArray[np.signedinteger]:
    """The memory of a tensor as whole numbers of the same size: numpy has no bfloat16."""
    sizes = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    numbers: NDArray[np.signedinteger] = tensor.detach().view(sizes[tensor.element_size()]).numpy()
    return numbers
