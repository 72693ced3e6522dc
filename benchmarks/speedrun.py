"""The minutes of a recipe to its score: one row of docs/speedrun.md, trained again.

    python benchmarks/speedrun.py nsmc|koen|numbers --out RUNS [--seeds 0,1,2] [KEY=VALUE ...]

The time is that of the whole command: reading the data, the vocabulary, training and the test set.
There is no row if the score is missed, or if other processes had more than `MAX_OTHERS` of the
machine meanwhile.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import psutil
from trained_runs import results_of
from turns import processor

MAX_OTHERS = 0.05  # of all cores


@dataclass(frozen=True)
class Goal:
    """A score of a test set, in mean over the seeds."""

    test_set: str
    metric: str
    score: float


GOALS = {
    "nsmc": Goal("test", "accuracy", 0.8639),
    "koen": Goal("docs_test", "bleu", 33.45),
    "numbers": Goal("test_sentences", "exact_match", 0.93),
}


def main() -> None:
    """Train, then print the row, or end with the reason why there is none."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("recipe", choices=GOALS)
    parser.add_argument("--out", type=Path, required=True, help="a folder without finished runs")
    parser.add_argument("--seeds", type=seeds_of, default=[0, 1, 2], metavar="0,1,2")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="what is tried")
    options = parser.parse_intermixed_args()
    folders = [options.out / f"{options.recipe}-{seed}" for seed in options.seeds]
    if any(folder.exists() for folder in folders):
        sys.exit("--out must be a folder without these runs: they would not be timed")
    goal, results = GOALS[options.recipe], []
    before = usage()
    for seed, folder in zip(options.seeds, folders, strict=True):
        arguments = [options.recipe, *options.overrides, f"seed={seed}"]
        results.append(results_of(folder, arguments))
    others = share_of_others(before, usage())
    if others > MAX_OTHERS:
        sys.exit(f"other processes had {others:.0%} of the machine: repeat this when it is idle")
    found = [score_of(result, goal) for result in results]
    if statistics.mean(found) < goal.score:
        sys.exit(f"{goal.metric} must be {goal.score}, got {statistics.mean(found):.4f}: no row")
    print(row(options.recipe, goal, found, results))


def seeds_of(text: str) -> list[int]:
    """The seeds of `0,1,2`: a list with blanks would take the overrides after it.

    >>> seeds_of("0,2")
    [0, 2]
    """
    return [int(seed) for seed in text.split(",")]


def usage() -> tuple[float, float, float]:
    """The clock, the processor time of the whole machine and that of this process's children."""
    machine = psutil.cpu_times()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = sum(machine) - machine.idle - getattr(machine, "iowait", 0.0)
    return time.monotonic(), busy, children.ru_utime + children.ru_stime


def share_of_others(start: tuple[float, float, float], end: tuple[float, float, float]) -> float:
    """The share of all cores that other processes had between two calls of `usage`.

    >>> share_of_others((0.0, 0.0, 0.0), (1.0, float(os.cpu_count()), float(os.cpu_count())))
    0.0
    """
    seconds, machine, own = (b - a for a, b in zip(start, end, strict=True))
    return max(machine - own, 0.0) / (seconds * (os.cpu_count() or 1))


def score_of(result: dict[str, Any], goal: Goal) -> float:
    """The score of a run on the test set of its goal."""
    sets = {scores["split"]: scores for scores in (result, *result["others"])}
    return float(sets[goal.test_set][goal.metric])


def row(recipe: str, goal: Goal, scores: list[float], results: list[dict[str, Any]]) -> str:
    """The row of the table."""
    minutes = statistics.mean(result["wall_seconds"] for result in results) / 60
    seeds = ", ".join(str(result["seed"]) for result in results)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return (
        f"| {recipe} | {goal.metric} {statistics.mean(scores):.4f} | {minutes:.1f} | "
        f"{os.cpu_count()} cores, {processor()} | {date.today()}, {commit} | {seeds} |"
    )


if __name__ == "__main__":
    main()
