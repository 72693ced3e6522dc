"""jumok as several processes of one machine, one gang after the other, with one import of torch.

python -m tests.training.torchrun < GANGS

GANGS is a JSON list of what `WorkerGroup` holds; printed is how each process of each gang ended. The
children of this process find each other as those of torchrun do, by their environment.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.cli.commands import environment


@dataclass(frozen=True)
class WorkerGroup:
    """So many processes that run the same words; what they say goes into files of `log`."""

    size: int
    words: list[str]
    log: str  # log.0, log.1, ...: what each rank said
    after: str = ""  # once this path is there ...
    hit: int = -1  # ... this rank, or all (-1),
    by: int = 0  # get this signal; 0: none


@dataclass(frozen=True)
class GroupExit:
    """How the processes of a gang ended, by rank, and how many seconds after the signal."""

    codes: list[int]
    seconds: float


def run(gangs: Sequence[WorkerGroup]) -> list[GroupExit]:
    """Run the gangs in a process of their own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.training.torchrun"],
        input=json.dumps([asdict(gang) for gang in gangs]),
        capture_output=True,
        text=True,
        check=False,
        timeout=580,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    return [GroupExit(**line) for line in json.loads(done.stdout)]


def outputs_of(gang: WorkerGroup) -> list[str]:
    """What each rank of a gang said."""
    return [Path(f"{gang.log}.{rank}").read_text(encoding="utf-8") for rank in range(gang.size)]


def _begin(gang: WorkerGroup, rank: int, port: int) -> int:
    """One process of a gang; its id."""
    from jumok.cli import main

    process = os.fork()
    if process == 0:
        file = os.open(f"{gang.log}.{rank}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        os.dup2(file, 1)
        os.dup2(file, 2)
        os.environ |= {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(gang.size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        main(gang.words)  # which exits
    return process


def _live(gang: WorkerGroup) -> GroupExit:
    """From the beginning of a gang to the end of its last process."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = int(listening.getsockname()[1])
    after = Path(gang.after)
    before = set(after.parent.glob("step-*"))  # a gang before this one may have come as far
    processes = [_begin(gang, rank, port) for rank in range(gang.size)]
    if gang.by:
        while not (after.exists() and set(after.parent.glob("step-*")) - before):
            time.sleep(0.002)
        for process in processes if gang.hit < 0 else processes[gang.hit : gang.hit + 1]:
            os.kill(process, gang.by)
    begin = time.monotonic()
    ends = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
    return GroupExit(ends, time.monotonic() - begin)


def _main() -> None:
    import matplotlib.pyplot  # noqa: F401
    import rich.progress  # noqa: F401

    import jumok.tasks.runs.train
    import jumok.training.parallel.fsdp  # noqa: F401

    signal.alarm(570)  # nobody waits for ever
    gangs = [WorkerGroup(**gang) for gang in json.load(sys.stdin)]
    print(json.dumps([asdict(_live(gang)) for gang in gangs]))


if __name__ == "__main__":
    _main()
