"""Ten thousand small steps, or an hour of them: memory, file descriptors and threads stay constant.

    python -m benchmarks.trust.soak [--steps 10000 | --minutes 60]

A real training with evaluations, reports and commits on the way, in a process of its own that
looks at itself every hundredth step. The growth of its memory is the slope of a line through the
last three quarters, in bytes a step; how many descriptors and threads there are must never change
there.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .result import Proof, parser
from .training import TrainingRun, temp_folder, write_corpus
from .worker_processes import preload_modules, start_jumok

EVERY = 100  # steps
MAX_GROWTH = 1024.0  # bytes per step


@dataclass(frozen=True)
class Look:
    """The resources of a process after some steps; memory in bytes."""

    step: int
    memory: int
    descriptors: int
    threads: int


def watch(path: Path) -> Callable[[], None]:
    """Make the process record its resources in `path` every hundred steps."""

    def first() -> None:
        from jumok.training.trainer import Trainer

        after_step = Trainer._after_step
        page = os.sysconf("SC_PAGE_SIZE")
        file = path.open("a", buffering=1)

        def noting(self, *arguments):  # type: ignore[no-untyped-def]
            after_step(self, *arguments)
            step = self.state.step
            if step % EVERY == 0:
                while self.checkpoint_writer.in_progress:  # its number of open files varies
                    time.sleep(0.001)
                memory = int(Path("/proc/self/statm").read_text().split()[1]) * page
                descriptors = len(os.listdir("/proc/self/fd"))
                threads = len(os.listdir("/proc/self/task"))
                file.write(json.dumps([step, memory, descriptors, threads]) + "\n")

        Trainer._after_step = noting  # type: ignore[method-assign]

    return first


def slope(looks: list[Look]) -> float:
    """Bytes per step, by least squares."""
    if len(looks) < 2:
        return 0.0
    return statistics.linear_regression(
        [look.step for look in looks], [look.memory for look in looks]
    ).slope


def main() -> int:
    """Train, and compare the resources."""
    arguments = parser("Train for long and watch the memory.")
    arguments.add_argument("--steps", type=int, default=10_000)
    arguments.add_argument("--minutes", type=float, default=0.0, help="instead of steps")
    options = arguments.parse_args()
    long = f"{options.minutes:g} minutes" if options.minutes else f"{options.steps:,} steps"
    proof = Proof("soak", f"a training of {long}, watched")
    never = "training.steps=1000000000"  # the recipe has fewer steps
    end = (
        (f"training.minutes={options.minutes}", never, "training.schedule=inverse_sqrt")
        if options.minutes
        else (f"training.steps={options.steps}",)
    )
    preload_modules()
    with temp_folder() as folder:
        recipe = write_corpus(folder / "corpus", train_rows=600)
        # the records of a million steps are kept in memory on purpose
        sparse = ("training.log_every=1000", "training.evaluate_every=1000")
        small = ("training.checkpoint_every=100", "training.gradient_accumulation_steps=1")
        training = TrainingRun(recipe, folder / "run", *end, *sparse, *small)
        worker = start_jumok(
            training.command, training.log, training.prepared(watch(folder / "looks"))
        )
        worker.patience = 60 * options.minutes + 3600
        if worker.end():
            raise SystemExit(f"the training failed: {worker.said[-800:]}")
        rows = (folder / "looks").read_text(encoding="utf-8").splitlines()
        looks = [Look(*json.loads(row)) for row in rows]
    settled = looks[len(looks) // 4 :]
    growth = slope(settled)
    descriptors = {look.descriptors for look in settled}
    threads = {look.threads for look in settled}
    for look in looks[:: max(1, len(looks) // 20)]:
        proof.say(
            f"step {look.step:>9,}  {look.memory / 2**20:8.1f} MB  "
            f"{look.descriptors} descriptors  {look.threads} threads"
        )
    proof.say(f"memory grows by {growth:.1f} bytes a step")
    proof.figures |= {"steps": looks[-1].step, "bytes_a_step": round(growth, 1)}
    proof.figures |= {"descriptors": max(descriptors), "threads": max(threads)}
    return proof.end(
        {
            f"memory grows by less than {MAX_GROWTH:.0f} bytes a step": growth < MAX_GROWTH,
            "as many descriptors and threads all the time": len(threads) == len(descriptors) == 1,
        }
    )


if __name__ == "__main__":
    sys.exit(main())
