"""Enter every door with damaged files, millions of them: no crash, no hang, no foreign error.

    python -m benchmarks.trust.fuzz [--total 1e7] [--door NAME] [--first N] [--keep DIR]

Input number N of a door is the same on every machine: a valid file (`fuzz_seeds`, and what
tests/fuzz/corpus holds) with a few changes drawn by a generator that N begins. Each door works in
processes of its own that the operating system ends for what must not be: more than a second of
computing for one input (a hang; 4 for a regular expression, whose machine takes that to build),
more memory than at the start plus 4 times the largest input plus 64 MB, or a fault of a library
(a crash). A worker that ends is replaced, behind the input that ended it.

Prints a table; what was found is written to DIR, for tests/fuzz/corpus. Exit code 1 if anything.
With atheris installed, `--guided SECONDS` lets coverage choose the changes instead, door by door.
"""

import argparse
import json
import mmap
import os
import random
import resource
import signal
import struct
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from jumok.errors import JumokError

from .fuzz_doors import DOORS, Door, ForeignError, leave
from .fuzz_mutations import LARGEST, Files, mutated

CORPUS = Path(__file__).resolve().parents[2] / "tests" / "fuzz" / "corpus"
WAITING = 60.0  # seconds with one input, on a busy machine
MEMORY = 64 * 2**20 + 4 * LARGEST
PER_WORKER = 50_000  # inputs, then a fresh process takes over
MOST_TOLD = 200  # faults of one door

_BOARD = struct.Struct("<Q")  # the number of the input at work


@dataclass
class Found:
    """What became of the inputs of one door."""

    inputs: int = 0
    seconds: float = 0.0
    refused: int = 0
    faults: dict[str, list[int]] = field(default_factory=dict)  # what, and numbers of inputs

    def add(self, what: str, number: int) -> None:
        """One more input that did this."""
        self.faults.setdefault(what, []).append(number)

    def count(self, kind: str) -> int:
        """How many inputs ended in a crash, a hang or a foreign error."""
        return sum(len(n) for what, n in self.faults.items() if what.startswith(kind))


def seeds_of(door: Door) -> list[Files]:
    """What changes begin from: valid files, and what once was a fault."""
    return [*door.seeds(), *corpus(door.name)]


def corpus(name: str) -> list[Files]:
    """The kept inputs of a door: a folder for each, with its files."""
    return [
        {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
        for folder in sorted((CORPUS / name).glob("*"))
    ]


def input_of(door: Door, seeds: Sequence[Files], number: int) -> dict[str, bytes]:
    """Input number `number` of a door."""
    return mutated(random.Random(f"{door.name} {number}"), seeds)


def fault_of(door: Door, files: Files) -> str | None:
    """What a door answered that is no sentence of jumok's; None for an answer or a refusal."""
    try:
        door.enter(files)
    except JumokError:
        return None
    except ForeignError as error:
        return f"foreign: {error}"
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if "/jumok/" in frame.filename] or frames
        place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
        return f"foreign: {type(error).__name__} at {place}: {ascii(str(error))[:80]}"
    return None


def fuzz(door: Door, first: int, count: int) -> Found:
    """Enter a door with inputs `first`, `first + 1`, ... by workers that may die."""
    seeds = seeds_of(door)
    for files in seeds:  # what is fetched once is fetched before memory is limited
        fault_of(door, files)
    found, number, begin = Found(), first, time.perf_counter()
    while number < first + count:
        number = _shift(door, seeds, number, min(number + PER_WORKER, first + count), found)
        if sum(map(len, found.faults.values())) > MOST_TOLD:
            break
    found.inputs, found.seconds = number - first, time.perf_counter() - begin
    return found


def _shift(door: Door, seeds: Sequence[Files], number: int, end: int, found: Found) -> int:
    """One worker from `number` on; the number behind its last input."""
    board = mmap.mmap(-1, _BOARD.size)
    read, write = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(read)
        _work(door, seeds, number, end, board, write)
    os.close(write)
    with os.fdopen(read) as told:
        for line in told:
            found.add(*json.loads(line))
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
        return end
    at = int(_BOARD.unpack(board[:])[0])
    ended = signal.Signals(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else None
    hangs = (signal.SIGPROF, signal.SIGALRM)
    found.add("hang" if ended in hangs else f"crash: {ended.name if ended else 'exit'}", at)
    return at + 1


def _work(
    door: Door, seeds: Sequence[Files], number: int, end: int, board: mmap.mmap, told: int
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
            files = input_of(door, seeds, at)
            signal.setitimer(signal.ITIMER_PROF, door.seconds)
            signal.setitimer(signal.ITIMER_REAL, WAITING)
            fault = fault_of(door, files)
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            if fault:
                os.write(told, json.dumps([fault, at]).encode() + b"\n")
        code = 0
    finally:
        leave()
        os._exit(code)


def keep(door: Door, found: Found, folder: Path) -> None:
    """Write the smallest input of every fault, for the corpus."""
    seeds = seeds_of(door)
    for what, numbers in found.faults.items():
        inputs = {number: input_of(door, seeds, number) for number in numbers[:20]}
        number = min(inputs, key=lambda n: sum(map(len, inputs[n].values())))
        place = folder / door.name / str(number)
        place.mkdir(parents=True, exist_ok=True)
        for name, content in inputs[number].items():
            (place / name).write_bytes(content)
        print(f"  {door.name} {number}: {what} ({len(numbers)} inputs)", flush=True)


def guided(door: Door, seconds: int) -> None:
    """Let atheris change the files of a door, led by what of jumok they reach."""
    import atheris  # type: ignore[import-untyped]  # no part of the extras

    seeds = seeds_of(door)
    names = sorted(seeds[0])

    def one(data: bytes) -> None:
        size = max(1, len(data) // len(names))
        parts = {name: data[i * size : (i + 1) * size] for i, name in enumerate(names)}
        fault = fault_of(door, dict(seeds[0]) | parts)
        if fault:
            raise ForeignError(fault)

    atheris.instrument_all()
    atheris.Setup([sys.argv[0], f"-max_total_time={seconds}", "-timeout=1"], one)
    atheris.Fuzz()


def main() -> int:
    """Fuzz as the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--total", type=float, default=1e7)
    parser.add_argument("--door", action="append", choices=sorted(DOORS))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--guided", type=int, metavar="SECONDS")
    asked = parser.parse_args()
    _one_thread_each()
    doors = [DOORS[name] for name in asked.door or DOORS]
    if asked.guided:
        for door in doors:
            guided(door, asked.guided)
        return 0
    shares = sum(door.share for door in doors)
    all_found: Counter[str] = Counter()
    print(f"{'door':<12}{'inputs':>12}{'inputs/s':>10}{'crashes':>9}{'hangs':>7}{'foreign':>9}")
    for door in doors:
        found = fuzz(door, asked.first, max(1, round(asked.total * door.share / shares)))
        counts = {kind: found.count(kind) for kind in ("crash", "hang", "foreign")}
        rate = found.inputs / found.seconds
        told = "".join(f"{counts[k]:>{w}}" for k, w in zip(counts, (9, 7, 9), strict=True))
        print(f"{door.name:<12}{found.inputs:>12,}{rate:>10,.0f}{told}", flush=True)
        all_found.update(counts | {"inputs": found.inputs})
        if found.faults:
            keep(door, found, asked.keep or Path("fuzz-found"))
    bad = all_found["crash"] + all_found["hang"] + all_found["foreign"]
    print(f"{all_found['inputs']:,} inputs, {bad:,} that must not be")
    return 1 if bad else 0


def _one_thread_each() -> None:
    """Threads of libraries would not survive the fork of a worker, and each reserves memory."""
    os.environ |= {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    import torch

    torch.set_num_threads(1)


if __name__ == "__main__":
    sys.exit(main())
