"""Systems that take turns, each in a process of its own: other load falls on all of them alike."""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path

import torch

Speeds = dict[int, list[float]]  # of each system, one a round


def take_turns(script: str, chosen: Sequence[int], rounds: int, words: Sequence[str]) -> Speeds:
    """Speeds of each chosen system, one a round; a first round warms up and is not counted.

    `script` is started with `--worker NUMBER` and `words` for each system; it calls `answer`.
    """
    workers = {
        number: subprocess.Popen(
            [sys.executable, script, "--worker", str(number), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in chosen
    }
    speeds: dict[int, list[float]] = {number: [] for number in chosen}
    for _ in range(rounds + 1):
        for number, worker in workers.items():
            assert worker.stdin is not None
            assert worker.stdout is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
            speeds[number].append(float(json.loads(worker.stdout.readline())))
    for worker in workers.values():
        worker.communicate()
    return {number: found[1:] for number, found in speeds.items()}


def answer(turn: Callable[[], int]) -> None:
    """In a worker: for every line on stdin take a turn and print its tokens a second."""
    for _ in sys.stdin:
        begin = time.perf_counter()
        tokens = turn()
        print(json.dumps(tokens / (time.perf_counter() - begin)), flush=True)


def speed_lines(speeds: Mapping[str, Sequence[float]], unit: str) -> list[str]:
    """Lowest, median and highest speed of each system."""
    return [
        f"{'system':<44} {'min':>7} {'median':>7} {'max':>7}  {unit}",
        *(
            f"{name:<44} {min(s):7,.0f} {statistics.median(s):7,.0f} {max(s):7,.0f}"
            for name, s in speeds.items()
        ),
    ]


def speed_parser(doc: str) -> argparse.ArgumentParser:
    """The options of a script that compares systems case by case, and those of its workers."""
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="cases whose name contains this; no file")
    parser.add_argument("--systems", default="", help="systems whose name contains one of A|B")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    return parser


def heading(command: str, *packages: str) -> str:
    """The command, the date and the versions: what a results file begins with."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("jumok", "torch", *packages))
    return (
        f"{command}\n{date.today()}, {versions}, Python {platform.python_version()}, "
        f"{torch.get_num_threads()} threads, {platform.machine()}\n"
    )
