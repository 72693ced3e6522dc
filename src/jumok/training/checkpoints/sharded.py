"""Checkpoints of which every process writes a part.

Rank 0 makes the folder that nobody looks at; each process writes and syncs its own files there and
tells rank 0 their sums; with the manifest of all, rank 0 gives the folder its name. So there is a
checkpoint when every part of it is safe on disk, and none before.
"""

import json
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from pathlib import Path

from torch import Tensor

from jumok.atomic_io import cleanup_on_error
from jumok.processes import ProcessGroup, raise_together
from jumok.training.checkpoints.manifest import JSON, FileRecord
from jumok.training.checkpoints.resharding import shard_name
from jumok.training.checkpoints.store import CheckpointStore, States


class ShardedCheckpointWriter:
    """The commits of one of many processes, which all begin the same ones in the same order.

    They speak by a connection that nobody else uses, so that a thread may commit.
    """

    def __init__(self, store: CheckpointStore, processes: ProcessGroup) -> None:
        self.store, self.processes = store, processes

    def commit(
        self,
        step: int,
        states: States,
        metadata: Mapping[str, JSON],
        protect: Collection[int] = (),
    ) -> Path:
        """Write this process's part and wait for the others, as `CheckpointStore.commit` does.

        What goes wrong with one ends the commit of all (`together`), and nothing is left of it.
        """
        processes, made = self.processes, b""
        rank, size = processes.rank, processes.size
        with ExitStack() as undone:
            with raise_together(processes):
                if rank == 0:
                    scratch = self.store.stage(step)
                    undone.enter_context(cleanup_on_error(scratch))
                    made = scratch.name.encode()
            scratch = self.store.checkpoints / processes.all_gather_bytes(made)[0].decode()
            with raise_together(processes):
                parts = {shard_name(name, rank, size): _held(t) for name, t in states.items()}
                records = self.store.write_states(step, scratch, parts)
            said = processes.all_gather_bytes(_told(records))
            with raise_together(processes):
                if rank == 0:
                    every = {name: record for text in said for name, record in _heard(text)}
                    self.store.publish(step, scratch, every, metadata, protect)
        return self.store.checkpoints / f"step-{step}"


def _held(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those of which this process has rows."""
    return {name: tensor for name, tensor in tensors.items() if tensor.numel()}


def _told(records: Mapping[str, FileRecord]) -> bytes:
    return json.dumps({name: vars(record) for name, record in records.items()}).encode()


def _heard(text: bytes) -> list[tuple[str, FileRecord]]:
    return [(name, FileRecord(**fields)) for name, fields in json.loads(text).items()]
