"""The recipes lm-ko and lm-ko-modern, trained side by side for the same minutes.

    python benchmarks/equal_time.py --out RUNS [--minutes 10] [--rounds 2] [key=value ...]

Both begin at once, each with one thread on a core of its own, from one vocabulary; the seed is the
number of the round, and every second round exchanges the cores. The learning rate falls to 0 by the
clock; what is scored is the dev split after the last step. Overrides are given to both recipes.
`share` is the processor time of a process by its wall time, tokenization included: other jobs may
run at the same time, and then they take turns on the cores.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.resources import files
from math import exp
from pathlib import Path
from statistics import mean

from trained_runs import results_of
from turns import heading

RESULTS = Path(__file__).parent / "results" / "equal_time.txt"
RECIPES = ("lm-ko", "lm-ko-modern")
CORES = (0, 1)
HEADING = (
    f"{'round':<5} {'recipe':<13} {'core':>4} {'share':>5} {'steps':>6} {'tokens/s':>8} "
    f"{'perplexity':>10} {'bits/byte':>9}  load"
)


@dataclass(frozen=True)
class Training:
    """One training of a round, after its end."""

    recipe: str
    core: int
    share: float
    steps: int
    speed: float
    perplexity: float
    bits_per_byte: float

    def line(self, number: int, load: str) -> str:
        """Its line of the table."""
        return (
            f"{number:<5} {self.recipe:<13} {self.core:>4} {self.share:5.2f} {self.steps:6,} "
            f"{self.speed:8,.0f} {self.perplexity:10.2f} {self.bits_per_byte:9.4f}  {load}"
        )


def train_both(out: Path, number: int, minutes: float, overrides: list[str]) -> list[str]:
    """The lines of a round, which is trained unless its folder has them."""
    folder = out / f"round-{number}"
    kept = folder / "lines.txt"
    if kept.exists():
        return kept.read_text(encoding="utf-8").splitlines()
    folder.mkdir()
    cores = CORES if number % 2 == 0 else CORES[::-1]
    before, begin = os.getloadavg(), time.perf_counter()
    started = []
    for name, core in zip(RECIPES, cores, strict=True):
        recipe = folder / f"{name}.toml"
        text = (files("jumok") / "recipes" / recipe.name).read_text(encoding="utf-8")
        assert "\nepochs = 2.5\n" in text
        recipe.write_text(
            text.replace("\nepochs = 2.5\n", f"\nminutes = {minutes}\n"), encoding="utf-8"
        )
        words = [f"vocabulary.file={out / 'vocabulary' / 'vocabulary.model'}", f"seed={number}"]
        command = [sys.executable, "-m", "jumok", "train", str(recipe), *words, *overrides]
        started.append(
            subprocess.Popen(
                ["taskset", "--cpu-list", str(core), *command, "--out", str(folder / name)],
                env=os.environ | {"OMP_NUM_THREADS": "1"},
                stdout=subprocess.DEVNULL,
            )
        )
    shares = {}
    for _ in started:
        process, status, usage = os.wait3(0)
        assert status == 0
        shares[process] = (usage.ru_utime + usage.ru_stime) / (time.perf_counter() - begin)
    load = f"{before[0]:.1f} to {os.getloadavg()[0]:.1f}"
    lines = [
        finished(folder / name, core, shares[process.pid]).line(number, load)
        for name, core, process in zip(RECIPES, cores, started, strict=True)
    ]
    kept.write_text("\n".join(lines), encoding="utf-8")
    return lines


def finished(run: Path, core: int, share: float) -> Training:
    """What a training has reached."""
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    measured = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in measured]
    speed = mean(r["tokens_per_second"] for r in records if r["kind"] == "train")
    dev = [r for r in records if r["kind"] == "dev"][-1]
    return Training(run.name, core, share, results["steps"], speed, exp(dev["loss"]), dev["score"])


def main() -> None:
    """Train what is missing, then print and keep the table."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--minutes", type=float, default=10.0)
    arguments.add_argument("--rounds", type=int, default=2)
    arguments.add_argument("overrides", nargs="*")
    given = arguments.parse_args()
    results_of(given.out / "vocabulary", ["lm-ko", "training.steps=1"])
    options = [f"--minutes {given.minutes:g} --rounds {given.rounds}", *given.overrides]
    lines = [heading(f"python benchmarks/equal_time.py --out RUNS {' '.join(options)}"), HEADING]
    for number in range(given.rounds):
        lines += train_both(given.out, number, given.minutes, given.overrides)
    text = "\n".join([*lines, ""])
    print(text)
    RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
