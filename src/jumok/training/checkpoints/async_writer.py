"""Asynchronous checkpointing: a background thread copies the tensors and writes the copy.

Forward and backward passes do not change weights, moments and averages, so they run while the
copy is made; only the optimizer has to wait for it (`wait_for_staging`), and by then it is usually
complete. Hashing, writing and syncing run in parallel with the training. At most one commit is in
progress, so commits stay in order and do not pile up.

The thread calls no multi-threaded operation of torch. OpenMP would give the thread its own workers,
and once there are more workers than cores, those of the training sleep between operations instead
of spinning (libgomp's GOMP_SPINCOUNT): a small model then trained at less than half the speed until
its end (docs/LOG.md).
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
from jumok.training.checkpoints.store import CheckpointStore, States


class AsyncCheckpointWriter:
    """Commits to `store` in the background; leaving the `with` waits for the last commit.

    With `copy=False` the tensors given to `commit` are the writer's own, and it copies none.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from jumok.training.checkpoints.store import CheckpointStore
    >>> weight = torch.ones(2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = CheckpointStore(Path(folder))
    ...     with AsyncCheckpointWriter(store) as writer:
    ...         writer.commit(40, {"model": {"weight": weight}}, {})
    ...         loss = weight.sum()  # the training continues at once
    ...         writer.wait_for_staging()
    ...         _ = weight.zero_()
    ...     store.checkpoint(40).load()
    {'model': {'weight': tensor([1., 1.])}}
    """

    def __init__(self, store: CheckpointStore, *, copy: bool = True) -> None:
        self.store, self.copy = store, copy
        self._buffers: dict[str, dict[str, Tensor]] = {}  # reused: new memory is slow to write to
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="jumok-commit")
        self._staging: Future[States] | None = None
        self._last: Future[object] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for the last commit. Raises its error, unless another error is being raised."""
        try:
            with suppress(*([JumokError] if error is not None else [])):
                self.wait()
        finally:
            self._thread.shutdown()

    @property
    def in_progress(self) -> bool:
        """Whether a commit is being written."""
        return self._last is not None and not self._last.done()

    @property
    def failed(self) -> bool:
        """Whether the last commit has failed; `wait` raises its error."""
        last = self._last
        return last is not None and last.done() and last.exception() is not None

    def allocate(self, states: States) -> None:
        """Allocate buffers for such tensors in the background: new memory is slow to fill."""
        if self.copy:
            self.wait()
            self._last = self._thread.submit(self._allocate, states)

    def commit(
        self,
        step: int,
        states: States,
        metadata: Mapping[str, JSON],
        protect: Collection[int] = (),
    ) -> None:
        """Begin a commit of the tensors as they are now; see `CheckpointStore.commit`.

        They must not be changed until `wait_for_staging` returns. Waits for the previous commit and
        raises its error; then this commit does not begin.
        """
        self.wait()
        now = {state: dict(tensors) for state, tensors in states.items()}
        staging = self._staging = self._thread.submit(self._stage, now)
        self._last = self._thread.submit(
            lambda: self.store.commit(step, staging.result(), metadata, protect)
        )

    def wait_for_staging(self) -> None:
        """Wait until the tensors of the last commit are copied; then they may change."""
        staging, self._staging = self._staging, None
        if staging is not None:
            wait_for([staging])  # the commit raises its error

    def wait(self) -> None:
        """Wait until every commit is safe on disk. Raises the error of the last one."""
        last, self._last = self._last, None
        if last is not None:
            last.result()

    @torch.no_grad()
    def _stage(self, states: States) -> States:
        """Copy the tensors into the CPU buffers."""
        if not self.copy:
            return states
        self._allocate(states)
        return {
            state: {name: _copy(self._buffers[state][name], t) for name, t in tensors.items()}
            for state, tensors in states.items()
        }

    def _allocate(self, states: States) -> None:
        """Create the missing buffers and write to them once."""
        for state, tensors in states.items():
            buffers = self._buffers.setdefault(state, {})
            for name, tensor in tensors.items():
                buffer = buffers.get(name)
                if buffer is None or buffer.shape != tensor.shape or buffer.dtype != tensor.dtype:
                    buffers[name] = torch.empty(tensor.shape, dtype=tensor.dtype)
                    _as_numpy(buffers[name]).fill(0)


def _copy(buffer: Tensor, tensor: Tensor) -> Tensor:
    """Copy into the buffer and return it; numpy copies CPU memory on a single core."""
    if tensor.device.type != "cpu":
        return buffer.copy_(tensor)
    np.copyto(_as_numpy(buffer), _as_numpy(tensor))
    return buffer


def _as_numpy(tensor: Tensor) -> NDArray[np.signedinteger]:
    """The memory of a tensor as integers of the same size: numpy has no bfloat16."""
    sizes = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    integers: NDArray[np.signedinteger] = tensor.detach().view(sizes[tensor.element_size()]).numpy()
    return integers
