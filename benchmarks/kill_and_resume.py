"""Kill a training 20 times, resume it each time, and compare with one that was left alone.

    python benchmarks/kill_and_resume.py [RECIPE] [key=value ...] [--kills 20] [--seed 0]

Real processes and SIGKILL, at moments that are spread over the whole life of a process: at any
time after its start (also while it is still starting), in the middle of a step, and while a
checkpoint is half written. The final weights and the last checkpoint must be the same, bit for
bit. Prints a table, writes it to benchmarks/results/kill_and_resume.txt; exit code 1 if they
differ.
"""

import argparse
import datetime
import os
import platform
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import TracebackType

import torch

from jumok.atomic_io import sha256_of, write_atomically
from jumok.safetensors_io import read_tensors
from jumok.training.checkpoints.store import CheckpointStore

PROGRAM = (sys.executable, "-m", "jumok")
SHORT = (
    "training.steps=120",
    "training.checkpoint_every=2",
    "training.batch_tokens=1024",
    "training.minutes=60",
    "training.epochs=1000",
    "data.train_rows=3000",
    "data.dev_rows=100",
    "data.test_rows=100",
    "vocabulary.size=400",
    "vocabulary.max_piece_length=4",
    "vocabulary.character_coverage=0.9995",
)
RESULT = Path(__file__).parent / "results" / "kill_and_resume.txt"
PATIENCE = 600.0  # seconds that one life may take


class Training:
    """A `jumok train` process in a run folder: resumed where there is a run, else begun anew."""

    def __init__(self, run: Path, words: Sequence[str]) -> None:
        self.run = run
        if (run / "recipe.toml").exists():
            command = [*PROGRAM, "train", "--resume", str(run)]
        else:
            shutil.rmtree(run, ignore_errors=True)  # died before there was anything to resume
            command = [*PROGRAM, "train", *words, "--out", str(run)]
        self.found = self.checkpoint_names()
        self.log = run.with_suffix(".log")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.begun = time.monotonic()

    def __enter__(self) -> "Training":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()

    def seconds(self) -> float:
        """How long it has lived."""
        return time.monotonic() - self.begun

    def ended(self) -> bool:
        """Whether it finished on its own; ends everything when it failed or takes too long."""
        code = self.process.poll()
        if code or self.seconds() > PATIENCE:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
            end = f"exit code {code} after {self.seconds():.0f} s"
            raise SystemExit("\n".join([f"the training did not finish: {end}", *lines]))
        return code == 0

    def kill(self) -> bool:
        """SIGKILL to the process and its children; whether it was still alive."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait() == -signal.SIGKILL

    def checkpoint_names(self) -> set[str]:
        """What lies in the folder of checkpoints now."""
        try:
            return set(os.listdir(self.run / "checkpoints"))
        except FileNotFoundError:
            return set()

    def cut_short(self) -> bool:
        """Whether this life left an unfinished checkpoint."""
        return any(name.startswith(".tmp-") for name in self.checkpoint_names() - self.found)

    def appearances(self, prefix: str) -> Iterator[bool]:
        """Looks every half millisecond; True when a new name with this prefix has come."""
        seen = self.checkpoint_names()
        while not self.ended():
            names = self.checkpoint_names()
            yield any(name.startswith(prefix) for name in names - seen)
            seen |= names
            time.sleep(0.0005)

    def wait_for(self, prefix: str, count: int) -> None:
        """Wait until so many names with this prefix have come, or the training is over."""
        for appeared in self.appearances(prefix):
            count -= appeared
            if count <= 0:
                return

    def live(self, seconds: float) -> None:
        """Let it be for so many seconds, or until it is over."""
        until = time.monotonic() + seconds
        while not self.ended() and time.monotonic() < until:
            time.sleep(min(0.002, max(0.0, until - time.monotonic())))


@dataclass(frozen=True)
class Pace:
    """Seconds that the uninterrupted training took: to its first commit, to its last, in all."""

    first: float
    last: float
    total: float
    commits: int

    @property
    def between(self) -> float:
        """Seconds from one commit to the next."""
        return (self.last - self.first) / (self.commits - 1)


@dataclass(frozen=True)
class Moment:
    """When to kill: so many commits begun or done (`prefix`) after the start, then a delay in s."""

    name: str
    prefix: str
    commits: int
    delay: float

    def wait(self, training: Training) -> None:
        """Until the moment has come, or the training is over."""
        if self.commits:
            training.wait_for(self.prefix, self.commits)
        training.live(self.delay)


@dataclass(frozen=True)
class Death:
    """One life: the step it went on from (None: the beginning), and the newest step it left."""

    run: int
    resumed: int | None
    moment: Moment
    seconds: float
    newest: int | None
    cut_short: bool

    def row(self) -> str:
        """Its line in the table."""
        resumed = "beginning" if self.resumed is None else f"step {self.resumed}"
        newest = "none" if self.newest is None else f"step {self.newest}"
        left = "unfinished commit" if self.cut_short else ""
        return (
            f"{self.run:>3}  {resumed:>12}  {self.moment.name:<27}  "
            f"{self.seconds:7.2f}  {newest:>8}  {left}"
        )


HEADINGS = "run  resumed from  killed                       seconds    newest  left behind"


def uninterrupted(run: Path, words: Sequence[str]) -> Pace:
    """Train from beginning to end, and note when the checkpoints came."""
    times = []
    with Training(run, words) as training:
        for appeared in training.appearances("step-"):
            if appeared:
                times.append(training.seconds())
        total = training.seconds()
    if len(times) < 5:
        raise SystemExit(f"{len(times)} checkpoints are too few to be killed between; commit more")
    return Pace(times[0], times[-1], total, len(times))


def moments(pace: Pace, chance: random.Random) -> Iterator[Moment]:
    """Moments to kill, of three kinds in turn, for ever."""
    while True:
        delay = chance.uniform(0, pace.first + (pace.last - pace.first) / 6)
        yield Moment(f"after {delay:.2f} s", "", 0, delay)
        count = chance.randint(1, 3)
        yield Moment(f"in its commit {count}", ".tmp-", count, chance.uniform(0, 0.004))
        count, share = chance.randint(1, 3), chance.random()
        name = f"{share:.0%} of a step after commit {count}"
        yield Moment(name, "step-", count, share * pace.between)


def newest(run: Path) -> int | None:
    """The step of the newest checkpoint; ends everything when a kill left a damaged one."""
    checkpoint = CheckpointStore(run).newest()
    if checkpoint is not None and checkpoint.invalid:
        raise SystemExit(f"a kill left a damaged checkpoint: {checkpoint.invalid}")
    return checkpoint.step if checkpoint is not None else None


def train_and_kill(
    run: Path, words: Sequence[str], coming: Iterator[Moment], number: int, kills: int
) -> list[Death]:
    """One training to its end, with at most so many deaths on the way."""
    deaths: list[Death] = []
    while len(deaths) < kills:
        moment, resumed = next(coming), newest(run)
        with Training(run, words) as training:
            moment.wait(training)
            seconds = training.seconds()
            if not training.kill():
                return deaths  # it was over before its moment came
            left = training.cut_short()
        deaths.append(Death(number, resumed, moment, seconds, newest(run), left))
        print(deaths[-1].row(), file=sys.stderr)
    with Training(run, words) as training:
        training.live(PATIENCE)
    return deaths


def outcome(run: Path) -> dict[str, Path]:
    """The files that must be the same: the final weights and the states of the last checkpoint."""
    last = CheckpointStore(run).newest()
    if last is None:
        raise SystemExit(f"{run.name} is over and has no checkpoint")
    files = [*sorted(last.path.glob("state-*.safetensors")), run / "model.safetensors"]
    return {str(path.relative_to(run)): path for path in files}


def compare(reference: Path, other: Path) -> dict[str, bool]:
    """For each file one line that says how alike the two are, and whether that is identical."""
    lines, wanted, found = {}, outcome(reference), outcome(other)
    for name in sorted(wanted.keys() | found.keys()):
        digest = sha256_of(wanted[name]) if name in wanted else ""
        same = name in found and digest == sha256_of(found[name])
        if same:
            verdict = f"identical, sha256 {digest}"
        elif name not in wanted or name not in found:
            verdict = "is in one of the two only"
        else:
            verdict = f"DIFFERENT, {differences(wanted[name], found[name])}"
        lines[f"  {name}: {verdict}"] = same
    return lines


def differences(path: Path, other: Path) -> str:
    """What differs between two files of tensors."""
    first, second = read_tensors(path), read_tensors(other)
    if first.keys() != second.keys():
        return "in the names of the tensors"
    unequal = [name for name in first if not torch.equal(first[name], second[name])]
    return f"in {len(unequal)} of {len(first)} tensors: {', '.join(unequal[:3])}"


def heading(words: Sequence[str], pace: Pace, kills: int, seconds: float) -> list[str]:
    """What was measured, with what, and when."""
    now = datetime.datetime.now(datetime.UTC)
    return [
        f"{kills} kills (SIGKILL) of a short training, each resumed",
        f"command   {shlex.join(['python', 'benchmarks/kill_and_resume.py', *sys.argv[1:]])}",
        f"training  jumok train {shlex.join(words)}",
        f"versions  jumok {version('jumok')}, torch {torch.__version__}, "
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, "
        f"{torch.get_num_threads()} threads",
        f"date      {now:%Y-%m-%d %H:%M} UTC; {seconds:.0f} s in all",
        f"alone     {pace.total:.1f} s; first commit after {pace.first:.1f} s, then {pace.commits} "
        f"in all, one every {pace.between:.2f} s",
    ]


def main() -> int:
    """Measure, print and write; 0 when everything is identical."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # tidy up first
    parser = argparse.ArgumentParser(description="Kill a training again and again; resume it.")
    parser.add_argument("words", nargs="*", metavar="WORD", help="RECIPE [key=value ...]")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the moments (default 0)")
    options = parser.parse_args()
    words: list[str] = options.words
    if not words or "=" in words[0]:
        words = ["numbers", *words]
    given = {word.partition("=")[0] for word in words}
    words += [word for word in SHORT if word.partition("=")[0] not in given]
    deaths: list[Death] = []
    verdicts: list[str] = []
    same, begun, number = True, time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="jumok-kills-") as name:
        alone = Path(name) / "alone"
        pace = uninterrupted(alone, words)
        coming = moments(pace, random.Random(options.seed))
        print(HEADINGS, file=sys.stderr)
        while len(deaths) < options.kills:  # a run may be over before it has died so often
            number += 1
            run = Path(name) / f"run-{number}"
            deaths += train_and_kill(run, words, coming, number, options.kills - len(deaths))
            compared = compare(alone, run)
            verdicts += [f"run {number} against the one left alone:", *compared]
            same = same and all(compared.values())
    top = heading(words, pace, len(deaths), time.monotonic() - begun)
    text = "\n".join([*top, "", HEADINGS, *(death.row() for death in deaths), "", *verdicts, ""])
    print(text)
    RESULT.parent.mkdir(exist_ok=True)
    write_atomically(RESULT, text.encode())
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
