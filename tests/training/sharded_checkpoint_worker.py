"""Processes that commit sharded checkpoints; one may be killed in the middle of a file.

python -m tests.training.sharded_checkpoint_worker FOLDER SIZE VICTIM STEP

Commits the steps 1 to STEP; at the last one the victim (-1: none) kills itself while it writes.
Prints the exit code of each process by rank: 0 for success, 6 if a process was lost, -9 if killed.
"""

import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from jumok import safetensors_io
from jumok.errors import JumokError
from jumok.processes import ProcessGroup, init_process_group
from jumok.training.checkpoints.resharding import local_rows
from jumok.training.checkpoints.sharded import ShardedCheckpointWriter
from jumok.training.checkpoints.store import CheckpointStore


def whole(step: int) -> dict[str, dict[str, Tensor]]:
    """The whole states of a step: weights of 1, 2, 7 and 40 rows, and a scalar."""
    rows = {f"w{n}": torch.arange(3.0 * n).view(n, 3) + step for n in (1, 2, 7, 40)}
    return {"model": rows, "optimizer": {"step:w1": torch.tensor(float(step)), **rows}}


def part(
    states: Mapping[str, Mapping[str, Tensor]], rank: int, size: int
) -> dict[str, dict[str, Tensor]]:
    """The rows of one of `size` processes."""
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
    """Run one process; its exit code."""
    commits = ShardedCheckpointWriter(CheckpointStore(folder), processes.new_group())
    rank, size = processes.rank, processes.size
    try:
        for step in range(1, last + 1):
            if step == last and rank == victim:
                _kill_in_the_middle()
            commits.commit(step, part(whole(step), rank, size), {"of": step})
    except JumokError as error:
        return error.exit_code
    return 0


def _kill_in_the_middle() -> None:
    """Kill this process after the first chunk of the next file."""
    iter_chunks = safetensors_io.iter_chunks

    def first_only(tensors: Mapping[str, Tensor]) -> Iterator[bytes | memoryview]:
        yield next(iter(iter_chunks(tensors)))
        os.kill(os.getpid(), signal.SIGKILL)

    safetensors_io.iter_chunks = first_only


def run_workers(size: int, work: Callable[[ProcessGroup], int]) -> None:
    """Run connected processes; print their exit codes."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = int(listening.getsockname()[1])
    os.environ |= {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    workers = []
    for rank in range(size):
        process = os.fork()
        if process == 0:
            os.environ["RANK"] = str(rank)
            with init_process_group(torch.device("cpu"), 30.0) as processes:
                code = work(processes)
            os._exit(code)
        workers.append(process)
    print(*(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in workers))


def _main() -> None:
    folder, (size, victim, last) = Path(sys.argv[1]), map(int, sys.argv[2:])
    signal.alarm(570)
    run_workers(size, lambda processes: _write(processes, folder, victim, last))


if __name__ == "__main__":
    _main()
