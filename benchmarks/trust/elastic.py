"""Change the number of processes of a strict training while it runs; its bits stay the same.

    python -m benchmarks.trust.elastic [--paths 20] [--seed 0] [--ordinary]

One process trains alone; then 2 and 4 do, from beginning to end. Then each path is a training that
is stopped up to three times, at random steps, by SIGTERM or SIGKILL, to one of its processes or to
all, and resumed with another random number of them, from 1 to 4. Weights, both moments of AdamW,
the running average, every line of metrics and the results must be those of the one alone. With
`--ordinary` the trainings are not strict, and the proof is seen to fail.
"""

import os
import random
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from .result import Proof, parser
from .training import TrainingRun, differences, temp_folder, write_corpus
from .worker_processes import WorkerProcess, preload_modules, start_jumok

LAST = 24  # steps
WORDS = (
    "training.strict=true",
    "training.gradient_accumulation_steps=4",
    "training.checkpoint_every=1",
    "training.evaluate_every=8",
    f"training.steps={LAST}",
    "training.timeout=120",
)
SIZES = (1, 2, 3, 4)
STOPS = (signal.SIGTERM, signal.SIGKILL)
ENDS = {0, 6, 143, -signal.SIGTERM, -signal.SIGKILL}  # 6: another process was lost


@dataclass
class WorkerGroup:
    """The processes of one stretch of a training, by rank."""

    lives: list[WorkerProcess]

    def until(self, what: Callable[[], bool]) -> bool:
        """Watch until `what` happens; False when the first process was over before."""
        return self.lives[0].until(what)

    def send(self, number: signal.Signals, to: int | None) -> None:
        """A signal to one of them, or to all."""
        for life in self.lives if to is None else [self.lives[to]]:
            life.send(number)

    def end(self) -> list[int]:
        """Wait until all are over; their exit codes."""
        return [life.end() for life in self.lives]

    @property
    def said(self) -> str:
        """What they wrote, one after the other."""
        return "\n".join(life.said for life in self.lives)[-2000:]


def gang(training: TrainingRun, size: int) -> WorkerGroup:
    """So many processes that begin the training, or go on with it, found as torchrun's are."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    words = training.command  # now, as the first process will change what it would be

    def place(rank: int) -> Callable[[], None]:
        def take() -> None:
            os.environ |= {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(size),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
            }

        return take

    return WorkerGroup(
        [
            start_jumok(
                words, training.log.with_suffix(f".{rank}.log"), training.prepared(place(rank))
            )
            for rank in range(size)
        ]
    )


@dataclass
class Walk:
    """What happened on the way of one training."""

    way: list[str] = field(default_factory=list)
    stops: list[signal.Signals] = field(default_factory=list)
    trouble: str = ""


def walk(training: TrainingRun, chance: random.Random) -> Walk:
    """One training through up to three changes to its end."""
    path = Walk()
    steps = sorted(chance.sample(range(1, LAST - 2), chance.randint(1, 3)))
    size = chance.choice(SIZES)
    for step in [*steps, LAST + 1]:
        path.way.append(f"{size}")
        lives = gang(training, size)
        lives.until(lambda step=step: training.committed() >= step)  # type: ignore[misc]
        number = chance.choice(STOPS)
        to = chance.choice([None, chance.randrange(size)])
        time.sleep(chance.uniform(0, 0.02))
        if step <= LAST:
            lives.send(number, to)
        codes = lives.end()
        if not ENDS.issuperset(codes) or (step > LAST and any(codes)):
            path.trouble = f"exit codes {codes}: {lives.said}"
            return path
        if not any(codes):
            return path
        path.stops.append(number)
        path.way.append(f"-{number.name[3:]} after {training.newest()}->")
        size = chance.choice([other for other in SIZES if other != size])
    return path


def main() -> int:
    """All sizes, then all paths."""
    words = parser("Change the number of processes of a training.")
    words.add_argument("--paths", type=int, default=20)
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--ordinary", action="store_true", help="not strict: see the bits differ")
    options = words.parse_args()
    settings = (*WORDS, "training.strict=false") if options.ordinary else WORDS
    chance = random.Random(options.seed)
    proof = Proof("elastic", "strict trainings by changing numbers of processes")
    preload_modules()
    stops: list[signal.Signals] = []
    different = stuck = 0
    with temp_folder() as folder:
        recipe = write_corpus(folder / "corpus", train_rows=600)

        def compared(training: TrainingRun, name: str, trouble: str) -> None:
            nonlocal different, stuck
            unlike = [] if trouble else differences(story, training.story())
            stuck, different = stuck + bool(trouble), different + bool(unlike)
            verdict = trouble or (f"OTHER BITS: {', '.join(unlike)}" if unlike else "the same bits")
            proof.say(f"{name}: {verdict}")
            if not trouble and not unlike:
                shutil.rmtree(training.run)
                shutil.rmtree(training.cache, ignore_errors=True)

        alone = TrainingRun(recipe, folder / "alone", *settings)
        first = gang(alone, 1)
        if any(first.end()):
            raise SystemExit(f"the training of one process failed: {first.said}")
        story = alone.story()
        for size in (2, 4):
            training = TrainingRun(recipe, folder / f"whole-{size}", *settings)
            lives = gang(training, size)
            trouble = f"exit codes {codes}: {lives.said}" if any(codes := lives.end()) else ""
            compared(training, f"{size} processes from the beginning", trouble)
        for number in range(1, options.paths + 1):
            training = TrainingRun(recipe, folder / f"path-{number}", *settings)
            path = walk(training, chance)
            stops += path.stops
            compared(training, f"path {number:>2}  {' '.join(path.way)}", path.trouble)
    proof.figures |= {"paths": options.paths, "changes": len(stops)}
    proof.figures |= {number.name.lower(): stops.count(number) for number in STOPS}
    proof.figures |= {"different": different, "stuck": stuck}
    return proof.end(
        {
            "1, 2 and 4 processes and every path: the same bits": different == 0,
            "no training that needs a person": stuck == 0,
            f"{options.paths} changes on the way or more": len(stops) >= options.paths,
        }
    )


if __name__ == "__main__":
    sys.exit(main())
