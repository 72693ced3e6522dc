"""Pass millions of damaged files to every entry point: no crash, no hang, no unexpected exception.

    python -m benchmarks.trust.fuzz [--total 1e7] [--minutes M] [--target NAME] [--first N]

Input number N of a target is the same on every machine: a valid file (`fuzz_corpus` and
tests/fuzz/corpus) with a few mutations drawn by a generator seeded with N. Two workers process the
targets in rounds, so that each target has had its share at any time. The operating system kills a
worker that takes more than a second of CPU time for one input (a hang; 4 s for regular
expressions), more memory than at its start plus 4 times the largest input plus 64 MB, or that
crashes in a library. Another worker continues with the next input.

The exit code is 1 if a fault was found, or fewer inputs were processed than requested. Faults are
written to the folder `--keep`, for tests/fuzz/corpus. `--first` selects other numbers.
"""

import json
import math
import mmap
import os
import random
import resource
import selectors
import signal
import struct
import sys
import time
import traceback
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from jumok.errors import JumokError

from . import result
from .fuzz_mutations import MAX_INPUT_BYTES, Files, mutated
from .fuzz_targets import TARGETS, FuzzTarget, UnexpectedError, remove_folder

CORPUS = Path(__file__).resolve().parents[2] / "tests" / "fuzz" / "corpus"
MAX_WAIT = 60.0  # seconds with one input, on a busy machine
MEMORY = 64 * 2**20 + 4 * MAX_INPUT_BYTES
JOBS = 2  # workers at a time
ROUNDS = 10  # of all targets
MIN_INPUTS = 100  # inputs of a target in a round, as long as its share is not used up
MAX_FAULTS = 200  # faults of one target; then it is left alone

_BOARD = struct.Struct("<Q")  # the number of the input at work


@dataclass
class TargetResult:
    """The results of the inputs of one target."""

    inputs: int = 0
    seconds: float = 0.0  # of computing
    faults: dict[str, list[int]] = field(default_factory=dict)  # what, and numbers of inputs

    def add(self, what: str, number: int) -> None:
        """One more input that did this."""
        self.faults.setdefault(what, []).append(number)

    @property
    def given_up(self) -> bool:
        """Whether so much was found that more inputs would tell no more."""
        return sum(map(len, self.faults.values())) > MAX_FAULTS

    def count(self, kind: str) -> int:
        """How many inputs ended in a crash, a hang or a foreign error."""
        return sum(len(n) for what, n in self.faults.items() if what.startswith(kind))


def seed_inputs(target: FuzzTarget) -> list[Files]:
    """What changes begin from: valid files, and what once was a fault."""
    return [*target.seeds(), *corpus(target.name)]


def corpus(name: str) -> list[Files]:
    """The kept inputs of a target: a folder for each, with its files."""
    return [
        {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
        for folder in sorted((CORPUS / name).glob("*"))
    ]


def make_input(target: FuzzTarget, seeds: Sequence[Files], number: int) -> dict[str, bytes]:
    """Input number `number` of a target."""
    return mutated(random.Random(f"{target.name} {number}"), seeds)


def find_fault(target: FuzzTarget, files: Files) -> str | None:
    """The description of an unexpected exception; None for a result or an error of jumok."""
    try:
        target.run(files)
    except JumokError:
        return None
    except UnexpectedError as error:
        return f"foreign: {error}"
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if "/jumok/" in frame.filename] or frames
        place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
        return f"foreign: {type(error).__name__} at {place}: {ascii(str(error))[:80]}"
    return None


@dataclass(frozen=True)
class WorkItem:
    """The inputs `first` to `end` - 1 of a target, for one worker."""

    target: FuzzTarget
    first: int
    end: int


def work_items(targets: Sequence[FuzzTarget], total: float, first: int) -> Iterable[WorkItem]:
    """The work in its order: each round a part of the share of every target."""
    shares = sum(target.share for target in targets)
    wanted = {target.name: math.ceil(total * target.share / shares) for target in targets}
    for number in range(ROUNDS):
        for target in targets:
            part = max(MIN_INPUTS, -(-wanted[target.name] // ROUNDS))
            begin, end = (min(wanted[target.name], part * n) for n in (number, number + 1))
            if begin < end:
                yield WorkItem(target, first + begin, first + end)


def fuzz(
    targets: Sequence[FuzzTarget], total: float, first: int = 0, until: float = float("inf")
) -> dict[str, TargetResult]:
    """Enter targets by workers that may die, until `until` of the monotonic clock."""
    seeds = {target.name: seed_inputs(target) for target in targets}
    for target in targets:  # what is fetched once is fetched before memory is limited
        for files in seeds[target.name]:
            find_fault(target, files)
    found = {target.name: TargetResult() for target in targets}
    work = deque(work_items(targets, total, first))
    with selectors.DefaultSelector() as selector:
        while work or selector.get_map():
            while work and len(selector.get_map()) < JOBS:
                shift = work.popleft()
                if not found[shift.target.name].given_up and time.monotonic() < until:
                    worker = _Worker(shift, seeds[shift.target.name])
                    selector.register(worker.output, selectors.EVENT_READ, worker)
            for key, _ in selector.select():
                worker = key.data
                if not worker.hear(found[worker.shift.target.name]):
                    selector.unregister(worker.output)
                    rest = worker.end(found[worker.shift.target.name])
                    if rest is not None:
                        work.appendleft(rest)
    return found


class _Worker:
    """A process at work on a shift, as the process that began it sees it."""

    def __init__(self, shift: WorkItem, seeds: Sequence[Files]) -> None:
        self.shift = shift
        self._board = mmap.mmap(-1, _BOARD.size)
        self.output, write = os.pipe()
        self._said = b""
        sys.stdout.flush()
        self._child = os.fork()
        if self._child == 0:
            os.close(self.output)
            _work(shift.target, seeds, shift.first, shift.end, self._board, write)
        os.close(write)

    def hear(self, found: TargetResult) -> bool:
        """Read its output; False at the end."""
        data = os.read(self.output, 65_536)
        *lines, self._said = (self._said + data).split(b"\n")
        for line in lines:
            found.add(*json.loads(line))
        return bool(data)

    def end(self, found: TargetResult) -> WorkItem | None:
        """Wait for its end; the rest of its shift, if it died before."""
        os.close(self.output)
        _, status, used = os.wait4(self._child, 0)
        found.seconds += used.ru_utime + used.ru_stime
        first, end = self.shift.first, self.shift.end
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
            found.inputs += end - first
            return None
        at = int(_BOARD.unpack(self._board[:])[0])
        ended = signal.Signals(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else None
        hangs = (signal.SIGPROF, signal.SIGALRM)
        found.add("hang" if ended in hangs else f"crash: {ended.name if ended else 'exit'}", at)
        found.inputs += at + 1 - first
        return WorkItem(self.shift.target, at + 1, end) if at + 1 < end else None


def _work(
    target: FuzzTarget,
    seeds: Sequence[Files],
    number: int,
    end: int,
    board: mmap.mmap,
    columns: int,
) -> NoReturn:
    """The life of a worker; never returns."""
    code = 1
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 2)  # the libraries' own words
        for name in (signal.SIGPROF, signal.SIGALRM):
            signal.signal(name, signal.SIG_DFL)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        for at in range(number, end):
            board[:] = _BOARD.pack(at)
            files = make_input(target, seeds, at)
            signal.setitimer(signal.ITIMER_PROF, target.seconds)
            signal.setitimer(signal.ITIMER_REAL, MAX_WAIT)
            fault = find_fault(target, files)
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            if fault:
                os.write(columns, json.dumps([fault, at]).encode() + b"\n")
        code = 0
    finally:
        remove_folder()
        os._exit(code)


def keep(target: FuzzTarget, found: TargetResult, folder: Path) -> None:
    """Write the smallest input of every fault, for the corpus."""
    seeds = seed_inputs(target)
    for what, numbers in found.faults.items():
        inputs = {number: make_input(target, seeds, number) for number in numbers[:20]}
        number = min(inputs, key=lambda n: sum(map(len, inputs[n].values())))
        place = folder / target.name / str(number)
        place.mkdir(parents=True, exist_ok=True)
        for name, content in inputs[number].items():
            (place / name).write_bytes(content)
        print(f"  {target.name} {number}: {what} ({len(numbers)} inputs)", flush=True)


def report(found: Mapping[str, TargetResult], proof: result.Proof, folder: Path) -> int:
    """The table, and the smallest input of every fault in a folder; how many faults."""
    kinds = {"crash": "crashes", "hang": "hangs", "foreign": "foreign"}
    total, counts = 0, dict.fromkeys(kinds, 0)
    columns = "".join(f"{name:>9}" for name in kinds.values())
    proof.say(f"{'target':<12}{'inputs':>12}{'CPU s':>8}{'a second':>10}{columns}")
    for name, of_target in found.items():
        here = {kind: of_target.count(kind) for kind in kinds}
        columns = "".join(f"{number:>9}" for number in here.values())
        rate = of_target.inputs / max(of_target.seconds, 1e-9)
        proof.say(
            f"{name:<12}{of_target.inputs:>12,}{of_target.seconds:>8.0f}{rate:>10,.0f}{columns}"
        )
        total += of_target.inputs
        for kind in kinds:
            counts[kind] += here[kind]
        if of_target.faults:
            keep(TARGETS[name], of_target, folder)
    seconds = sum(of_target.seconds for of_target in found.values())
    proof.say(f"{'all':<12}{total:>12,}{seconds:>8.0f}")
    proof.figures |= {"inputs": total, "cpu_seconds": round(seconds)}
    proof.figures |= {name: counts[kind] for kind, name in kinds.items()}
    return sum(counts.values())


def main() -> int:
    """Run the command."""
    words = result.parser("Damaged files at every target: a result or an error of jumok.")
    words.add_argument("--total", type=float, default=1e7)
    words.add_argument("--minutes", type=float, default=float("inf"))
    words.add_argument("--target", action="append", choices=sorted(TARGETS))
    words.add_argument("--first", type=int, default=0)
    words.add_argument("--keep", type=Path, default=Path("fuzz-found"))
    words.add_argument("--remark", help="what else the machine did meanwhile")
    asked = words.parse_args()
    _one_thread_each()
    proof = result.Proof(
        "fuzz", "Every target, entered with damaged files: an answer or a sentence."
    )
    targets = [TARGETS[name] for name in asked.target or TARGETS]
    found = fuzz(targets, asked.total, asked.first, proof.begun + 60 * asked.minutes)
    bad = report(found, proof, asked.keep)
    if asked.remark:
        proof.say(f"\n{asked.remark}")
    entered = int(proof.figures["inputs"])
    return proof.end(
        {
            f"{entered:,} of {asked.total:,.0f} inputs": entered >= asked.total,
            f"{bad} crashes, hangs, foreign errors; more memory than allowed is a crash": not bad,
        }
    )


def _one_thread_each() -> None:
    """Threads of libraries would not survive the fork of a worker, and each reserves memory."""
    os.environ |= {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    import torch

    torch.set_num_threads(1)


if __name__ == "__main__":
    sys.exit(main())
