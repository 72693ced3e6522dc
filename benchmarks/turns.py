"""Systems measured in turns, each in its own process, so that other load affects all of them."""

import argparse
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path

import torch

Speeds = dict[int, list[float]]  # of each system, one per round

# The variables with which jumok, CTranslate2, oneDNN, torch and MKL cap their instructions.
CAPS = {
    "avx2": {
        "JUMOK_CPU": "avx2",
        "CT2_FORCE_CPU_ISA": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    },
    "avx512": {
        "JUMOK_CPU": "avx512",
        "CT2_FORCE_CPU_ISA": "AVX512",
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
        "ATEN_CPU_CAPABILITY": "avx512",
        "MKL_ENABLE_INSTRUCTIONS": "AVX512",
    },
}


def take_turns(script: str, chosen: Sequence[int], rounds: int, words: Sequence[str]) -> Speeds:
    """The speeds of each chosen system, one per round, after a warm-up round.

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
    """In a worker: for every line on stdin run one round and print its tokens per second."""
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
    parser.add_argument("--only", default="", help="cases whose name contains one of A|B; no file")
    parser.add_argument("--systems", default="", help="systems whose name contains one of A|B")
    parser.add_argument("--cap", choices=CAPS, help="the newest instructions of every system")
    parser.add_argument("--save", default="", help="the name of the results file of a selection")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    return parser


def set_cap(name: str | None) -> None:
    """Limit the instructions of every system alike, in the processes started from now on."""
    if name is not None:
        os.environ.update(CAPS[name])


def save_tables(given: argparse.Namespace, folder: Path, tables: Sequence[str], top: str) -> None:
    """Write tables and what they begin with; a selection of cases is written with --save only."""
    name = given.save
    if not (name or given.only or given.systems):
        name = Path(sys.argv[0]).stem + (f"_{given.cap}" if given.cap else "")
    if name:
        (folder / f"{name}.txt").write_text("\n\n".join([top, *tables]) + "\n", encoding="utf-8")


def command_line() -> str:
    """The command that started this script; FOLDER instead of absolute paths of this machine."""
    words = ["FOLDER" if Path(word).is_absolute() else word for word in sys.argv[1:]]
    return shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *words])


def heading(command: str, *packages: str) -> str:
    """The first lines of a results file: the command, the date and the versions."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("jumok", "torch", *packages))
    return (
        f"{command}\n{date.today()}, {versions}, Python {platform.python_version()}, "
        f"{torch.get_num_threads()} threads, {processor()}\n"
    )


def processor() -> str:
    """The processor, and the cap on its instructions if JUMOK_CPU sets one."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    keys = ("model name", "cpu family", "model\t")
    found = {
        line.split("\t")[0]: line.partition(": ")[2] for line in lines if line.startswith(keys)
    }
    described = ", ".join(f"{key} {value}" for key, value in found.items())
    cap = os.environ.get("JUMOK_CPU")
    return f"{described or platform.machine()}" + (f"; capped at {cap}" if cap else "")
