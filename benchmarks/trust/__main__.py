"""All reliability tests in one command: short, with the goals of docs/trust.md, or long.

    python -m benchmarks.trust [short|bars|long]

Short: a minute or two of everything, which leaves benchmarks/results as it is. Bars: the figures
that are promised, in some 18 minutes on two quiet cores. Long: an hour of soak and what finds the
rare faults. Each proof is a process of its own, and its exit code counts.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from .result import UNRECORDED

Words = tuple[str, ...]

# Two run in parallel; those that measure time run alone.
LANES: dict[str, tuple[Sequence[Words], Sequence[Words]]] = {
    "short": (
        [
            ("kills", "--kills", "20"),
            ("every_step", "--steps", "12"),
            ("fuzz", "--total", "1e5"),
        ],
        [
            ("corrupt", "--damages", "500"),
            ("powerloss", "--most", "200"),
            ("rerun",),
            ("signals", "--stops", "4"),
            ("elastic", "--paths", "2"),
            ("hostile", "--only", "opcodes"),
            ("mutants", "--only", "masks"),
        ],
    ),
    "bars": (
        [
            ("kills", "--kills", "500"),
            ("elastic",),
            ("mutants",),
            ("corrupt", "--damages", "10000"),
            ("powerloss",),
            ("rerun",),
        ],
        [
            ("every_step", "--steps", "200"),
            ("signals", "--stops", "100"),
            ("hostile",),
            ("soak", "--minutes", "1.5"),
            ("fuzz", "--total", "2e6", UNRECORDED),  # a fifth of the goal
        ],
    ),
    "long": (
        [("kills", "--kills", "5000"), ("elastic", "--paths", "200", "--seed", "1")],
        [
            ("fuzz",),
            ("mutants",),
            ("corrupt", "--damages", "200000"),
            ("signals", "--stops", "1000"),
            ("soak", "--minutes", "60"),
        ],
    ),
}
SINGLE_PROCESS: dict[str, Sequence[Words]] = {
    "short": [],
    "bars": [("overhead",), ("strict", "--rounds", "5")],
    "long": [],
}


@dataclass(frozen=True)
class Done:
    """The result of one test."""

    words: Words
    code: int
    seconds: float
    log: Path


def prove(words: Words, folder: Path, recorded: bool) -> Done:
    """Run one test in its own process."""
    log = folder / f"{words[0]}.txt"
    command = [sys.executable, "-m", f"benchmarks.trust.{words[0]}", *words[1:]]
    begun = time.monotonic()
    with log.open("wb") as file:
        more = [] if recorded else [UNRECORDED]
        code = subprocess.run([*command, *more], stdout=file, stderr=file, check=False).returncode
    done = Done(words, code, time.monotonic() - begun, log)
    verdict = "good" if code == 0 else f"MISSED, exit code {code}"
    print(f"{' '.join(words):<32}{done.seconds:>8.0f} s  {verdict}", flush=True)
    return done


def main() -> int:
    """Run them; returns 0 when all pass."""
    words = argparse.ArgumentParser(description="Proofs that nothing is lost.")
    words.add_argument("how", nargs="?", default="bars", choices=list(LANES))
    how: str = words.parse_args().how
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="jumok-proofs-") as name:

        def lane(proofs: Sequence[Words]) -> list[Done]:
            return [prove(proof, Path(name), recorded=how != "short") for proof in proofs]

        with ThreadPoolExecutor(max_workers=2) as lanes:
            done = [one for many in lanes.map(lane, LANES[how]) for one in many]
        done += lane(SINGLE_PROCESS[how])
        good = sum(not one.code for one in done)
        print(f"{good} of {len(done)} good, {(time.monotonic() - begun) / 60:.1f} minutes in all")
        for one in done:
            if one.code:
                print(f"\n{one.words[0]}:\n{one.log.read_text(errors='replace')[-4000:]}")
    return 1 if any(one.code for one in done) else 0


if __name__ == "__main__":
    sys.exit(main())
