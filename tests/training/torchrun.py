"""Run jumok as groups of processes on one machine, like torchrun, with a single import of torch.

python -m tests.training.torchrun

Reads lines, each a JSON list of the fields of `WorkerGroup`, and prints for each line how each
process of each group exited.
The child processes find each other by their environment, as those of torchrun do.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from tests.cli.commands import environment


@dataclass(frozen=True)
class WorkerGroup:
    """Processes that run the same command; their output goes to files."""

    size: int
    argv: list[str]
    log: str  # log.0, log.1, ...: the output of each rank
    after: str = ""  # once this path exists ...
    hit: int = -1  # ... this rank, or all (-1),
    by: int = 0  # get this signal; 0: none


@dataclass(frozen=True)
class GroupExit:
    """The exit codes by rank, and the seconds from the signal to the last exit."""

    codes: list[int]
    seconds: float


def run(groups: Sequence[WorkerGroup]) -> list[GroupExit]:
    """Run the groups, one after the other, from a separate process that all tests share."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps([asdict(group) for group in groups]) + "\n")
    server.stdin.flush()
    answer = server.stdout.readline()
    if not answer:
        _server.cache_clear()
        raise AssertionError(f"the process that starts groups ended with {server.wait()}")
    return [GroupExit(**line) for line in json.loads(answer)]


@cache
def _server() -> "subprocess.Popen[str]":
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.training.torchrun"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    atexit.register(server.communicate)  # the end of its input ends it
    return server


def outputs_of(group: WorkerGroup) -> list[str]:
    """The output of each rank."""
    return [Path(f"{group.log}.{rank}").read_text(encoding="utf-8") for rank in range(group.size)]


def _start(group: WorkerGroup, rank: int, port: int) -> int:
    """Start one process of a group; its id."""
    from jumok.cli import main

    process = os.fork()
    if process == 0:
        file = os.open(f"{group.log}.{rank}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        os.dup2(file, 1)
        os.dup2(file, 2)
        os.environ |= {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(group.size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        main(group.argv)  # which exits
    return process


def _run(group: WorkerGroup) -> GroupExit:
    """Run a group until its last process exits."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = int(listening.getsockname()[1])
    after = Path(group.after)
    before = set(after.parent.glob("step-*"))  # an earlier group may have written it
    processes = [_start(group, rank, port) for rank in range(group.size)]
    if group.by:
        while not (after.exists() and set(after.parent.glob("step-*")) - before):
            time.sleep(0.002)
        for process in processes if group.hit < 0 else processes[group.hit : group.hit + 1]:
            os.kill(process, group.by)
    start = time.monotonic()
    codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
    return GroupExit(codes, time.monotonic() - start)


def _main() -> None:
    import jumok.training.parallel.fsdp  # noqa: F401
    from benchmarks.trust.worker_processes import preload_modules

    preload_modules()
    for line in sys.stdin:
        signal.alarm(570)
        groups = [WorkerGroup(**group) for group in json.loads(line)]
        print(json.dumps([asdict(_run(group)) for group in groups]), flush=True)
        signal.alarm(0)


if __name__ == "__main__":
    _main()
