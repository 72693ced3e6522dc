"""Interrupt trainings by signals and full disks; each stops cleanly and resumes bit for bit.

    python -m benchmarks.trust.signals [--stops 100] [--seed 0]

SIGTERM and SIGINT at random moments (the step is finished and committed, exit code 143 or 130,
one sentence), two of them at once, SIGSTOP and SIGCONT, a closed terminal; a disk that is full (a
limit on the size of files, /dev/full), a folder that cannot be written to or is removed on the
way; a clock that goes backwards. What can be resumed afterwards is, and must end with the bits of
the training left alone.
"""

import os
import random
import re
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .result import Proof, parser
from .training import TrainingRun, differences, temp_folder, write_corpus
from .worker_processes import WorkerProcess, preload_modules, start_jumok

STEPS = "training.steps=60"
SIZES = (1, 20_000, 200, 40_000, 3_000, 12_000)  # maximum file sizes on the full disk
GRACE = 60.0  # seconds to finish a step and commit, generous for busy machines


@dataclass
class Case:
    """One kind of failure: how many cases, and which ended badly."""

    name: str
    came: int = 0
    well: int = 0


class Troubles:
    """The trainings of one corpus, and the outcome of the uninterrupted one."""

    def __init__(self, folder: Path, proof: Proof) -> None:
        self.folder, self.proof, self.number = folder, proof, 0
        self.recipe = write_corpus(folder / "corpus", train_rows=600)
        alone = self.training()
        begun = time.monotonic()
        if alone.start().end():
            raise SystemExit(f"the training that was left alone failed: {alone.log.read_text()}")
        self.seconds, self.story = time.monotonic() - begun, alone.story()
        self.cases: dict[str, Case] = {}

    def training(self) -> TrainingRun:
        """A new training."""
        self.number += 1
        return TrainingRun(self.recipe, self.folder / f"run-{self.number}", STEPS)

    def judge(self, name: str, trouble: str) -> None:
        """Count a case; an empty message is a success."""
        case = self.cases.setdefault(name, Case(name))
        case.came += 1
        case.well += not trouble
        if trouble:
            self.proof.say(f"{name}: {trouble}")

    def after(self, training: TrainingRun) -> str:
        """What differs after the training is resumed to its end."""
        worker = training.start()
        if worker.end():
            return f"exit code {worker.code} when it went on: {worker.said[-600:]}"
        unlike = differences(self.story, training.story())
        shutil.rmtree(training.run)
        return f"other bits: {', '.join(unlike)}" if unlike else ""


def stopped(troubles: Troubles, number: signal.Signals, rng: random.Random) -> str:
    """One signal between the first and the last step."""
    training = troubles.training()
    worker = training.start()
    expected = 3 * rng.randint(1, 16)
    worker.until(lambda: training.committed() >= expected)
    worker.for_seconds(rng.uniform(0, 0.05))
    worker.send(number)
    asked = time.monotonic()
    code = worker.end()
    if code == 0 and training.committed() == 60:  # it had finished already
        return "" if not differences(troubles.story, training.story()) else "other bits"
    said = rf"stopped by {number.name} after step {training.newest()}, which is saved; to resume"
    if code != 128 + number or not re.search(said, worker.said) or "Traceback" in worker.said:
        return f"exit code {code}: {worker.said[-600:]}"
    if time.monotonic() - asked > GRACE:
        return f"it took {time.monotonic() - asked:.1f} s to stop"
    return troubles.after(training)


def stopped_twice(troubles: Troubles, number: signal.Signals, rng: random.Random) -> str:
    """Two signals in a row: the second one may terminate the process."""
    training = troubles.training()
    worker = training.start()
    expected = 3 * rng.randint(1, 16)
    worker.until(lambda: training.committed() >= expected)
    worker.send(number)
    worker.for_seconds(rng.uniform(0, 0.003))
    worker.send(number)
    code = worker.end()
    if code not in (0, 128 + number, -number):
        return f"exit code {code}: {worker.said[-600:]}"
    return troubles.after(training) if code else ""


def frozen(troubles: Troubles, rng: random.Random) -> str:
    """SIGSTOP for a second, then SIGCONT."""
    training = troubles.training()
    expected = 3 * rng.randint(1, 10)
    worker = training.start()
    worker.until(lambda: training.committed() >= expected)
    worker.send(signal.SIGSTOP)
    time.sleep(1.0)
    worker.send(signal.SIGCONT)
    return ended(troubles, training, worker)


def ended(troubles: Troubles, training: TrainingRun, worker: WorkerProcess) -> str:
    """What is wrong with a process that should have finished by itself."""
    if worker.end():
        return f"exit code {worker.code}: {worker.said[-600:]}"
    unlike = differences(troubles.story, training.story())
    return f"other bits: {', '.join(unlike)}" if unlike else ""


def with_first(troubles: Troubles, first: Callable[[], None]) -> tuple[TrainingRun, WorkerProcess]:
    """A training whose process runs an action first."""
    training = troubles.training()
    return training, start_jumok(training.command, training.log, training.prepared(first))


def deaf(troubles: Troubles) -> str:
    """Closed output: stdout and stderr are pipes whose reading end is closed."""

    def close() -> None:
        reading, writing = os.pipe()
        os.close(reading)
        os.dup2(writing, 1)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]

    return ended(troubles, *with_first(troubles, close))


def full_output(troubles: Troubles) -> str:
    """stdout is /dev/full."""

    def fill() -> None:
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)

    training, worker = with_first(troubles, fill)
    worker.end()
    if "Traceback" in worker.said or not (training.run / "results.json").exists():
        return f"exit code {worker.code}: {worker.said[-600:]}"
    unlike = differences(troubles.story, training.story())
    return f"other bits: {', '.join(unlike)}" if unlike else ""


def small_files(troubles: Troubles, size: int) -> str:
    """The disk is full: a limit on the size of files, like a quota."""
    training, worker = with_first(
        troubles, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    )
    worker.end()
    # the limit applies to its log too, so the output may be truncated
    if worker.code not in (0, 3, 120) or "Traceback" in worker.said:
        return f"at {size} bytes exit code {worker.code}: {worker.said[-600:]}"
    return troubles.after(training)


def unwritable(troubles: Troubles, rng: random.Random) -> str:
    """The checkpoint folder is replaced by a file, which not even root can write into."""
    training = troubles.training()
    expected = 3 * rng.randint(1, 10)
    worker = training.start()
    worker.until(lambda: training.committed() >= expected)
    aside = training.run / "aside"
    (training.run / "checkpoints").rename(aside)
    (training.run / "checkpoints").write_text("")
    if worker.end() not in (0, 3) or "Traceback" in worker.said:
        return f"exit code {worker.code}: {worker.said[-600:]}"
    (training.run / "checkpoints").unlink()
    aside.rename(training.run / "checkpoints")
    return troubles.after(training)


def removed(troubles: Troubles, rng: random.Random) -> str:
    """The run is removed during the training; a new one can be started there."""
    training = troubles.training()
    expected = 3 * rng.randint(1, 10)
    worker = training.start()
    worker.until(lambda: training.committed() >= expected)
    training.run.rename(training.run.with_name("gone"))
    shutil.rmtree(training.run.with_name("gone"))
    if worker.end() not in (0, 3) or "Traceback" in worker.said:
        return f"exit code {worker.code}: {worker.said[-600:]}"
    shutil.rmtree(training.run, ignore_errors=True)
    return troubles.after(training)


def backwards(troubles: Troubles) -> str:
    """The wall clock runs backwards."""

    def turn() -> None:
        now = 1e9

        def earlier(*arguments: Any) -> float:
            nonlocal now
            now -= 1.0
            return now

        for name in ("time", "monotonic", "perf_counter"):
            setattr(time, name, earlier)

    return ended(troubles, *with_first(troubles, turn))


def main() -> int:
    """Run all kinds of failures."""
    arguments = parser("Stop, freeze and starve trainings.")
    arguments.add_argument("--stops", type=int, default=100, help="SIGTERMs and SIGINTs together")
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args()
    rng = random.Random(options.seed)
    proof = Proof("signals", "trainings that are stopped, frozen and starved")
    preload_modules()
    few = max(1, options.stops // 20)
    with temp_folder() as folder:
        troubles = Troubles(folder, proof)
        for _ in range(options.stops // 2):
            for number in (signal.SIGTERM, signal.SIGINT):
                troubles.judge(number.name, stopped(troubles, number, rng))
        for which in range(few):
            for number in (signal.SIGTERM, signal.SIGINT):
                troubles.judge(f"{number.name} twice", stopped_twice(troubles, number, rng))
            troubles.judge("SIGSTOP, SIGCONT", frozen(troubles, rng))
            troubles.judge("a disk that is full", small_files(troubles, SIZES[which % len(SIZES)]))
            troubles.judge("no folder to write to", unwritable(troubles, rng))
            troubles.judge("the run removed", removed(troubles, rng))
        troubles.judge("stdout closed", deaf(troubles))
        troubles.judge("stdout on a full disk", full_output(troubles))
        troubles.judge("a clock that goes back", backwards(troubles))
    cases = troubles.cases.values()
    for case in cases:
        proof.say(f"{case.name:<24}{case.came:>4} came {case.well:>4} ended well")
    came, well = sum(case.came for case in cases), sum(case.well for case in cases)
    proof.figures |= {"troubles": came, "ended_well": well}
    return proof.end({f"{came} of {came} ended well, to the same bits": well == came})


if __name__ == "__main__":
    sys.exit(main())
