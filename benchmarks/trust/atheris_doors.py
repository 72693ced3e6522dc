"""Enter every door with files that coverage leads to: atheris keeps what reaches new lines.

    python -m benchmarks.trust.atheris_doors [--minutes 10] [--door NAME] [--keep DIR]

atheris (Google's, libFuzzer within) is no part of the extras: pip install atheris. It begins with
the files that `fuzz` begins with, changes them as `fuzz` does or byte by byte, and goes on from
every input that got further. Each door has the same time, in a process of its own, two side by
side. What counts is what counts in `fuzz`: a crash, more than its seconds of computing for one
input, an error that is not jumok's, 2 GB of memory. The first of them ends a door; its input is
written to DIR, in the form that tests/fuzz/corpus keeps.
"""

import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from . import result
from .fuzz_mutations import LARGEST, Files, mutated

SIDE_BY_SIDE = 2
MEGABYTES = 2048
SLOWER = 4  # times, than code that is not watched
WAITING = 60  # seconds with one input, on a busy machine
INSIDE = "--inside"  # the word that begins the life of a process of one door


def packed(files: Files) -> bytes:
    r"""Several files as one input: a line of JSON with their names and lengths, then their bytes.

    >>> packed({"a": b"xy", "b": b""})
    b'[["a", 2], ["b", 0]]\nxy'
    """
    names = sorted(files)
    table = [[name, len(files[name])] for name in names]
    return b"\n".join([json.dumps(table).encode(), b"".join(files[name] for name in names)])


def unpacked(data: bytes, like: Files) -> dict[str, bytes]:
    """The files of an input; what lost its first line stands for the first file alone."""
    line, _, rest = data.partition(b"\n")
    try:
        table = [(str(name), int(size)) for name, size in json.loads(line)]
    except (ValueError, TypeError, RecursionError):
        table = []
    if not table or any(name not in like or size < 0 for name, size in table):
        return dict(like) | {sorted(like)[0]: data}
    files, place = {}, 0
    for name, size in table:
        files[name] = rest[place : place + size]
        place += size
    return files


@dataclass(frozen=True)
class Led:
    """What became of a door."""

    inputs: int
    reached: int  # edges of jumok's code
    kept: int  # inputs that reached something new
    fault: str


def lead(name: str, seconds: int, home: Path, keep: Path) -> Led:
    """One door, in a process of its own."""
    inputs, found = home / name, home / f"{name}-found"
    for folder in (inputs, found, home / f"{name}-work"):
        folder.mkdir()
    module = "benchmarks.trust.atheris_doors"
    command = [sys.executable, "-m", module, INSIDE, name, str(seconds), str(home)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    said = done.stdout + done.stderr
    counted = re.search(r"number_of_executed_units: (\d+)", said)
    reached = re.findall(r"cov: (\d+)", said)
    fault = ""
    if done.returncode:
        words = re.findall(r"ForeignError: (.*)", said)
        words += re.findall(r"ERROR: libFuzzer: (.*)", said)
        fault = words[0] if words else f"exit code {done.returncode}: {said[-300:]}"
        _keep(name, found, keep)
    return Led(
        int(counted[1]) if counted else 0,
        int(reached[-1]) if reached else 0,
        sum(1 for _ in inputs.iterdir()),
        fault,
    )


def _keep(name: str, found: Path, keep: Path) -> None:
    from .fuzz import seeds_of
    from .fuzz_doors import DOORS

    like = seeds_of(DOORS[name])[0]
    for number, path in enumerate(sorted(found.iterdir())):
        folder = keep / name / f"led-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        for part, content in unpacked(path.read_bytes(), like).items():
            (folder / part).write_bytes(content)


def inside(name: str, seconds: int, home: Path) -> None:
    """The life of the process of one door; libFuzzer ends it."""
    import atheris  # type: ignore[import-untyped]  # no part of the extras

    with atheris.instrument_imports(include=["jumok"]):
        from . import fuzz, fuzz_doors

        fuzz._one_thread_each()
        door = fuzz_doors.DOORS[name]
        seeds = fuzz.seeds_of(door)
        fuzz_doors.use_folder(home / f"{name}-work")
        for files in seeds:  # imports what a door imports late
            fuzz.fault_of(door, files)
    for number, files in enumerate(seeds):
        (home / name / f"seed-{number}").write_bytes(packed(files))

    def enter(data: bytes) -> None:
        begun = time.process_time()
        fault = fuzz.fault_of(door, unpacked(data, seeds[0]))
        used = time.process_time() - begun
        if used > SLOWER * door.seconds:
            fault = f"hang: {used:.1f} s of computing"
        if fault:
            raise fuzz_doors.ForeignError(fault)

    def change(data: bytes, most: int, seed: int) -> bytes:
        chance = random.Random(seed)
        if chance.random() < 0.3:
            return bytes(atheris.Mutate(data, most))
        return packed(mutated(chance, [*seeds, *[unpacked(data, seeds[0])] * (3 * len(seeds))]))[
            :most
        ]

    words = [
        sys.argv[0],
        f"-max_total_time={seconds}",
        f"-timeout={WAITING}",
        f"-rss_limit_mb={MEGABYTES}",
        f"-max_len={2 * LARGEST}",
        f"-artifact_prefix={home / f'{name}-found'}/",
        "-print_final_stats=1",
        str(home / name),
    ]
    atheris.Setup(words, enter, custom_mutator=change)
    atheris.Fuzz()


def main(words: Sequence[str]) -> int:
    """All doors, or those that are named."""
    if words[:1] == [INSIDE]:
        inside(words[1], int(words[2]), Path(words[3]))
        return 0
    from .fuzz_doors import DOORS

    parser = result.parser("Doors entered with what coverage leads to.")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--door", action="append", choices=sorted(DOORS))
    parser.add_argument("--keep", type=Path, default=Path("fuzz-found"))
    parser.add_argument("--remark", help="what else the machine did meanwhile")
    asked = parser.parse_args(words)
    if find_spec("atheris") is None:
        print("atheris is not installed; pip install atheris", file=sys.stderr)
        return 2
    proof = result.Proof("atheris_doors", "Every door, entered with what coverage leads to.")
    names = asked.door or list(DOORS)
    seconds = max(1, round(60 * asked.minutes * SIDE_BY_SIDE / len(names)))
    proof.say(f"{'door':<12}{'inputs':>10}{'edges':>8}{'kept':>7}")
    faults = inputs = 0
    with tempfile.TemporaryDirectory(prefix="jumok-led-") as home:

        def one(name: str) -> Led:
            return lead(name, seconds, Path(home), asked.keep)

        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            for name, led in zip(names, pool.map(one, names), strict=True):
                proof.say(
                    f"{name:<12}{led.inputs:>10,}{led.reached:>8,}{led.kept:>7,}  {led.fault}"
                )
                faults, inputs = faults + bool(led.fault), inputs + led.inputs
    if asked.remark:
        proof.say(f"\n{asked.remark}")
    proof.figures |= {"doors": len(names), "seconds_each": seconds, "inputs": inputs}
    return proof.end({f"{faults} doors with a crash, a hang or a foreign error": not faults})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
