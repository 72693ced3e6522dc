"""A sweep: trainings of every combination of recipe values and seeds, in parallel processes.

Each is `jumok train` in a process of its own, with its output in `train.log` of its run folder. A
sweep is repeated with the same words to continue it: finished runs stay, stopped ones resume.
"""

import io
import itertools
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import redirect_stderr
from dataclasses import dataclass
from math import inf
from pathlib import Path

from jumok.errors import InputError, Interrupted
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.run import Run
from jumok.tasks.runs.train import has_recipe
from jumok.threads import compute_threads
from jumok.training.signals import PARENT, handle_signals

LOG = "train.log"
MAX_NAME = 60  # characters of a value in the name of a folder
POLL_SECONDS = 0.5  # for a signal, and the end of the time


@dataclass(frozen=True)
class Training:
    """One training of a sweep."""

    recipe: str
    overrides: tuple[str, ...]
    folder: Path

    def command(self) -> list[str]:
        """The words after `jumok` that train it, or resume it."""
        if Run(self.folder).recipe_path.exists():
            return ["train", "--resume", str(self.folder)]
        return ["train", self.recipe, *self.overrides, "--out", str(self.folder)]


def plan_sweep(recipe: str, words: Sequence[str], seeds: int, out: Path) -> list[Training]:
    """The trainings of each combination of the values in `key=a,b,c` and the seeds from 0.

    A word `seed=4,5` gives the seeds instead. Raises InputError for a recipe that any of them
    makes invalid, and for a folder that has a run of another recipe.

    >>> for each in plan_sweep("numbers", ["training.steps=5,10"], 1, Path("runs/sweep")):
    ...     print(each.folder.as_posix(), *each.overrides)
    runs/sweep/steps=5,seed=0 training.steps=5 seed=0
    runs/sweep/steps=10,seed=0 training.steps=10 seed=0
    """
    load_recipe(recipe, [word for word in words if "=" not in word])  # raises for these
    values = {key: split_values(text) for key, _, text in (word.partition("=") for word in words)}
    values.setdefault("seed", [str(seed) for seed in range(seeds)])
    varied = [key for key in values if len(values[key]) > 1 or key == "seed"]
    last = [key.rpartition(".")[2] for key in varied]
    labels = {k: end if last.count(end) == 1 else k for k, end in zip(varied, last, strict=True)}
    trainings: dict[str, Training] = {}
    for combination in itertools.product(*values.values()):
        chosen = dict(zip(values, combination, strict=True))
        name = ",".join(f"{labels[key]}={_readable(chosen[key])}" for key in varied)
        while name in trainings:  # values that differ only in characters that names leave out
            name += "'"
        overrides = tuple(f"{key}={value}" for key, value in chosen.items())
        training = Training(recipe, overrides, out / name)
        with redirect_stderr(io.StringIO()):  # notices, which each training logs
            checked = load_recipe(recipe, overrides)
        run = Run(training.folder)
        if run.recipe_path.exists() and not has_recipe(run, checked):
            raise InputError(
                "run.sweep_has_other_recipe",
                "{folder} must not hold a run of another recipe; name another folder by --out",
                folder=training.folder,
            )
        trainings[name] = training
    return list(trainings.values())


def split_values(text: str) -> list[str]:
    """The values between commas that are outside of brackets and quotes, each once.

    >>> split_values("1e-3,2e-3"), split_values('[1,2],[3,4]'), split_values("")
    (['1e-3', '2e-3'], ['[1,2]', '[3,4]'], [''])
    """
    values, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        depth += (not quote) * ((character in "[{") - (character in "]}"))
        if character == "," and not depth and not quote:
            values.append("")
        else:
            values[-1] += character
    return list(dict.fromkeys(values))


def _readable(value: str) -> str:
    """A value as a part of a folder's name."""
    return re.sub(r"[^\w.+-]+", "-", value).strip("-")[-MAX_NAME:] or "none"


def run_sweep(
    trainings: Sequence[Training],
    workers: int,
    report: Callable[[Training, int], None],
    minutes: float = inf,
) -> None:
    """Train what is not finished, `workers` at a time with as many threads as there are for each.

    `report` is called with the exit code of each training that ended. After `minutes`, after SIGINT
    or SIGTERM, and after a kill of this process those that run write a checkpoint and end. Raises
    Interrupted for a signal.
    """
    deadline = time.monotonic() + 60 * minutes
    processes = _Processes(max(compute_threads() // workers, 1))
    waiting = [each for each in trainings if not Run(each.folder).finished]
    with handle_signals() as stop, ThreadPoolExecutor(workers) as pool:
        started: dict[Future[int], Training] = {
            pool.submit(processes.train, training): training for training in waiting
        }
        pending = set(started)
        try:
            while pending:
                done, pending = wait(pending, POLL_SECONDS, FIRST_COMPLETED)
                for future in done:
                    report(started[future], future.result())
                if stop.requested is not None or time.monotonic() > deadline:
                    processes.stop()
        finally:  # also where `report` cannot print
            processes.stop()
    if stop.requested is not None:
        raise Interrupted(
            "run.sweep_stopped",
            "stopped by {name}; the same command continues the sweep",
            name=signal.Signals(stop.requested).name,
            signal_number=int(stop.requested),
        )


class _Processes:
    """The trainings that run: started by several threads, stopped together."""

    def __init__(self, threads: int) -> None:
        self.environment = os.environ | {
            "JUMOK_THREADS": str(threads),
            "OMP_NUM_THREADS": str(threads),
            PARENT: str(os.getpid()),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        self.stopped = False
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()

    def train(self, training: Training) -> int:
        """Train in a new process; its exit code, that of SIGINT if no more is started."""
        with self._lock:
            if self.stopped:
                return 128 + signal.SIGINT
            training.folder.mkdir(parents=True, exist_ok=True)
            with (training.folder / LOG).open("ab") as log:
                process = subprocess.Popen(  # noqa: S603  (words of the user's own command)
                    [sys.executable, "-P", "-m", "jumok", *training.command()],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=self.environment,
                    start_new_session=True,  # Ctrl-C reaches it by `stop` alone, and once
                )
            self._running.add(process)
        code = process.wait()
        with self._lock:
            self._running.remove(process)
        return code

    def stop(self) -> None:
        """Let every training write a checkpoint and end; start no other."""
        with self._lock:
            running = () if self.stopped else tuple(self._running)  # a second signal would kill
            self.stopped = True
            for process in running:
                process.terminate()
