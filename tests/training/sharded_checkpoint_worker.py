"""Processes that commit a checkpoint in parts, of which one may die in the middle of its file.

python -m tests.training.sharded_checkpoint_worker FOLDER SIZE VICTIM STEP

Commits the steps 1 to STEP; at the last one the victim (-1: nobody) kills itself while it writes.
Printed is how each process ended, by rank: 0 for well, 6 for a lost one noticed, -9 for killed.
"""

import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from jumok import safetensors_io as tensorfile
from jumok.errors import JumokError
from jumok.processes import ProcessGroup, init_process_group
from jumok.training.checkpoints.resharding import local_rows
from jumok.training.checkpoints.sharded import ShardedCheckpointWriter
from jumok.training.checkpoints.store import CheckpointStore


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
            key: tensor[slice(*_ends(local_rows(len(tensor), rank, size)))]
            if tensor.ndim
            else tensor
            for key, tensor in tensors.items()
        }
        for name, tensors in states.items()
    }


def _ends(rows: range) -> tuple[int, int]:
    return rows.start, rows.stop


def _write(processes: ProcessGroup, folder: Path, victim: int, last: int) -> int:
    """One process; its exit code."""
    commits = ShardedCheckpointWriter(CheckpointStore(folder), processes.new_group())
    rank, size = processes.rank, processes.size
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
    pieces = tensorfile.iter_chunks

    def some(tensors: Mapping[str, Tensor]) -> Iterator[bytes | memoryview]:
        yield next(iter(pieces(tensors)))
        os.kill(os.getpid(), signal.SIGKILL)

    tensorfile.iter_chunks = some


def run_workers(size: int, live: Callable[[ProcessGroup], int]) -> None:
    """So many connected processes that do the same; printed is how each ended."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = int(listening.getsockname()[1])
    os.environ |= {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    lives = []
    for rank in range(size):
        process = os.fork()
        if process == 0:
            os.environ["RANK"] = str(rank)
            with init_process_group(torch.device("cpu"), 30.0) as processes:
                code = live(processes)
            os._exit(code)
        lives.append(process)
    print(*(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in lives))


def _main() -> None:
    folder, (size, victim, last) = Path(sys.argv[1]), map(int, sys.argv[2:])
    signal.alarm(570)
    run_workers(size, lambda processes: _write(processes, folder, victim, last))


if __name__ == "__main__":
    _main()
