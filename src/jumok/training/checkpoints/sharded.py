"""Checkpoints of a sharded model: every process writes its own files.

Rank 0 creates the temporary folder; each process writes and syncs its files there and sends their
checksums to rank 0, which writes the manifest and renames the folder. So a checkpoint exists only
once all its files are safe on disk.
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
    """Writes this process's part of each checkpoint; all ranks commit the same steps in order.

    `processes` must be a group that is used for nothing else, so that a thread may commit.
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

        An error on one rank ends the commit of all (`raise_together`) and removes its files.
        """
        processes, name = self.processes, b""
        rank, size = processes.rank, processes.size
        with ExitStack() as cleanup:
            with raise_together(processes):
                if rank == 0:
                    scratch = self.store.stage(step)
                    cleanup.enter_context(cleanup_on_error(scratch))
                    name = scratch.name.encode()
            scratch = self.store.checkpoints / processes.all_gather_bytes(name)[0].decode()
            with raise_together(processes):
                shards = {shard_name(name, rank, size): _present(t) for name, t in states.items()}
                records = self.store.write_states(step, scratch, shards)
            gathered = processes.all_gather_bytes(_to_json(records))
            with raise_together(processes):
                if rank == 0:
                    everyones = {name: record for text in gathered for name, record in _parse(text)}
                    self.store.publish(step, scratch, everyones, metadata, protect)
        return self.store.checkpoints / f"step-{step}"


def _present(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of which this process has rows."""
    return {name: tensor for name, tensor in tensors.items() if tensor.numel()}


def _to_json(records: Mapping[str, FileRecord]) -> bytes:
    return json.dumps({name: vars(record) for name, record in records.items()}).encode()


def _parse(text: bytes) -> list[tuple[str, FileRecord]]:
    return [(name, FileRecord(**fields)) for name, fields in json.loads(text).items()]
