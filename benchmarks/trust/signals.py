"""Stop trainings politely, freeze them, starve them; each ends in order and goes on bit for bit.

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
SIZES = (1, 20_000, 200, 40_000, 3_000, 12_000)  # bytes that a file may have on a full disk
GRACE = 60.0  # seconds to finish a step and commit; far more than it takes, as machines are busy


@dataclass
class Case:
    """One kind of trouble: how often it came, and how often it ended well."""

    name: str
    came: int = 0
    well: int = 0


class Troubles:
    """The trainings of one corpus, and the story of the one that was left alone."""

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
        """A new one."""
        self.number += 1
        return TrainingRun(self.recipe, self.folder / f"run-{self.number}", STEPS)

    def judge(self, name: str, trouble: str) -> None:
        """Count a case; an empty trouble is none."""
        case = self.cases.setdefault(name, Case(name))
        case.came += 1
        case.well += not trouble
        if trouble:
            self.proof.say(f"{name}: {trouble}")

    def after(self, training: TrainingRun) -> str:
        """What is wrong when the training goes on undisturbed to its end."""
        life = training.start()
        if life.end():
            return f"exit code {life.code} when it went on: {life.said[-600:]}"
        unlike = differences(self.story, training.story())
        shutil.rmtree(training.run)
        return f"other bits: {', '.join(unlike)}" if unlike else ""


def stopped(troubles: Troubles, number: signal.Signals, chance: random.Random) -> str:
    """One polite stop while steps are taken."""
    training = troubles.training()
    life = training.start()
    wanted = 3 * chance.randint(1, 16)
    life.until(lambda: training.committed() >= wanted)
    life.for_seconds(chance.uniform(0, 0.05))
    life.send(number)
    asked = time.monotonic()
    code = life.end()
    if code == 0 and training.committed() == 60:  # it was over already
        return "" if not differences(troubles.story, training.story()) else "other bits"
    said = rf"stopped by {number.name} after step {training.newest()}, which is saved; to resume"
    if code != 128 + number or not re.search(said, life.said) or "Traceback" in life.said:
        return f"exit code {code}: {life.said[-600:]}"
    if time.monotonic() - asked > GRACE:
        return f"it took {time.monotonic() - asked:.1f} s to stop"
    return troubles.after(training)


def stopped_twice(troubles: Troubles, number: signal.Signals, chance: random.Random) -> str:
    """Two signals in a row: it may end at once, by the second one, or in order."""
    training = troubles.training()
    life = training.start()
    wanted = 3 * chance.randint(1, 16)
    life.until(lambda: training.committed() >= wanted)
    life.send(number)
    life.for_seconds(chance.uniform(0, 0.003))
    life.send(number)
    code = life.end()
    if code not in (0, 128 + number, -number):
        return f"exit code {code}: {life.said[-600:]}"
    return troubles.after(training) if code else ""


def frozen(troubles: Troubles, chance: random.Random) -> str:
    """Stopped for a second in the middle of it, and let go on."""
    training = troubles.training()
    wanted = 3 * chance.randint(1, 10)
    life = training.start()
    life.until(lambda: training.committed() >= wanted)
    life.send(signal.SIGSTOP)
    time.sleep(1.0)
    life.send(signal.SIGCONT)
    return ended(troubles, training, life)


def ended(troubles: Troubles, training: TrainingRun, life: WorkerProcess) -> str:
    """What is wrong when a life should have reached the end by itself."""
    if life.end():
        return f"exit code {life.code}: {life.said[-600:]}"
    unlike = differences(troubles.story, training.story())
    return f"other bits: {', '.join(unlike)}" if unlike else ""


def with_first(troubles: Troubles, first: Callable[[], None]) -> tuple[TrainingRun, WorkerProcess]:
    """A training whose process does something before it begins."""
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
    """Its stdout lies on a full disk."""

    def fill() -> None:
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)

    training, life = with_first(troubles, fill)
    life.end()
    if "Traceback" in life.said or not (training.run / "results.json").exists():
        return f"exit code {life.code}: {life.said[-600:]}"
    unlike = differences(troubles.story, training.story())
    return f"other bits: {', '.join(unlike)}" if unlike else ""


def small_files(troubles: Troubles, size: int) -> str:
    """The disk is full: no file may grow beyond some bytes, as a quota would have it."""
    training, life = with_first(
        troubles, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    )
    life.end()
    # its log is a file too, so its output may be truncated
    if life.code not in (0, 3, 120) or "Traceback" in life.said:
        return f"at {size} bytes exit code {life.code}: {life.said[-600:]}"
    return troubles.after(training)


def unwritable(troubles: Troubles, chance: random.Random) -> str:
    """The folder of checkpoints becomes a file: root may write everywhere, but not into that."""
    training = troubles.training()
    wanted = 3 * chance.randint(1, 10)
    life = training.start()
    life.until(lambda: training.committed() >= wanted)
    aside = training.run / "aside"
    (training.run / "checkpoints").rename(aside)
    (training.run / "checkpoints").write_text("")
    if life.end() not in (0, 3) or "Traceback" in life.said:
        return f"exit code {life.code}: {life.said[-600:]}"
    (training.run / "checkpoints").unlink()
    aside.rename(training.run / "checkpoints")
    return troubles.after(training)


def removed(troubles: Troubles, chance: random.Random) -> str:
    """The whole run is removed while it is trained; a new one may be begun there."""
    training = troubles.training()
    wanted = 3 * chance.randint(1, 10)
    life = training.start()
    life.until(lambda: training.committed() >= wanted)
    training.run.rename(training.run.with_name("gone"))
    shutil.rmtree(training.run.with_name("gone"))
    if life.end() not in (0, 3) or "Traceback" in life.said:
        return f"exit code {life.code}: {life.said[-600:]}"
    shutil.rmtree(training.run, ignore_errors=True)
    return troubles.after(training)


def backwards(troubles: Troubles) -> str:
    """Every look at the clock shows an earlier time than the one before."""

    def turn() -> None:
        now = 1e9

        def earlier(*words: Any) -> float:
            nonlocal now
            now -= 1.0
            return now

        for name in ("time", "monotonic", "perf_counter"):
            setattr(time, name, earlier)

    return ended(troubles, *with_first(troubles, turn))


def main() -> int:
    """All kinds of trouble."""
    words = parser("Stop, freeze and starve trainings.")
    words.add_argument("--stops", type=int, default=100, help="SIGTERMs and SIGINTs together")
    words.add_argument("--seed", type=int, default=0)
    options = words.parse_args()
    chance = random.Random(options.seed)
    proof = Proof("signals", "trainings that are stopped, frozen and starved")
    preload_modules()
    few = max(1, options.stops // 20)
    with temp_folder() as folder:
        troubles = Troubles(folder, proof)
        for _ in range(options.stops // 2):
            for number in (signal.SIGTERM, signal.SIGINT):
                troubles.judge(number.name, stopped(troubles, number, chance))
        for which in range(few):
            for number in (signal.SIGTERM, signal.SIGINT):
                troubles.judge(f"{number.name} twice", stopped_twice(troubles, number, chance))
            troubles.judge("SIGSTOP, SIGCONT", frozen(troubles, chance))
            troubles.judge("a disk that is full", small_files(troubles, SIZES[which % len(SIZES)]))
            troubles.judge("no folder to write to", unwritable(troubles, chance))
            troubles.judge("the run removed", removed(troubles, chance))
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
