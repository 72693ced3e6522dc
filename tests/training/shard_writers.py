"""Processes that commit a checkpoint in parts, of which one may die in the middle of its file.

python -m tests.training.shard_writers FOLDER SIZE VICTIM STEP

Commits the steps 1 to STEP; at the last one the victim (-1: nobody) kills itself while it writes.
Printed is how each process ended, by rank: 0 for well, 6 for a lost one noticed, -9 for killed.
"""

import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from jumok import tensorfile
from jumok.errors import JumokError
from jumok.training.checkpoint import CheckpointStore
from jumok.training.distributed import connected
from jumok.training.rows import rows_of
from jumok.training.sharded_commits import ShardedCommits


def whole(step: int) -> dict[str, dict[str, Tensor]]:
    """The states of a step as one process would have them: 1, 2, 7 and 40 rows, and none."""
    rows = {f"w{n}": torch.arange(3.0 * n).view(n, 3) + step for n in (1, 2, 7, 40)}
    return {"model": rows, "optimizer": {"step:w1": torch.tensor(float(step)), **rows}}


def part(
    states: Mapping[str, Mapping[str, Tensor]], rank: int, size: int
) -> dict[str, dict[str, Tensor]]:
    """What one of `size` processes holds of them."""
    return {
        name: {
            key: tensor[slice(*_ends(rows_of(len(tensor), rank, size)))] if tensor.ndim else tensor
            for key, tensor in tensors.items()
        }
        for name, tensors in states.items()
    }


def _ends(rows: range) -> tuple[int, int]:
    return rows.start, rows.stop


def _live(folder: Path, rank: int, size: int, victim: int, last: int) -> int:
    """One process; its exit code."""
    with connected(torch.device("cpu"), 30.0) as processes:
        commits = ShardedCommits(CheckpointStore(folder), processes.beside())
        try:
            for step in range(1, last + 1):
                if step == last and rank == victim:
                    _die_in_the_middle()
                commits.commit(step, part(whole(step), rank, size), {"of": step})
        except JumokError as error:
            return error.exit_code
    return 0


def _die_in_the_middle() -> None:
    """From here on the first piece of a file is the last."""
    pieces = tensorfile.pieces

    def some(tensors: Mapping[str, Tensor]) -> Iterator[bytes | memoryview]:
        yield next(iter(pieces(tensors)))
        os.kill(os.getpid(), signal.SIGKILL)

    tensorfile.pieces = some


def _main() -> None:
    folder, (size, victim, last) = Path(sys.argv[1]), map(int, sys.argv[2:])
    signal.alarm(100)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = int(listening.getsockname()[1])
    processes = []
    for rank in range(size):
        process = os.fork()
        if process == 0:
            words = {"RANK": rank, "WORLD_SIZE": size, "MASTER_PORT": port}
            os.environ |= {key: str(value) for key, value in words.items()}
            os.environ["MASTER_ADDR"] = "127.0.0.1"
            os._exit(_live(folder, rank, size, victim, last))
        processes.append(process)
    print(*(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes))


if __name__ == "__main__":
    _main()
