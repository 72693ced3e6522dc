"""Kill trainings at random moments; each resumes by itself with identical bits.

    python -m benchmarks.trust.kills [--kills 500] [--seed 0]

SIGKILL is sent at any moment of a process, from its start to its final report; while a checkpoint
is written; and while the token cache is written. A supervisor then runs `jumok train --resume RUN`
if there is a run, otherwise the first command again.
"""

import random
import shutil
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from .result import Proof, parser
from .training import TrainingRun, differences, temp_folder, write_corpus
from .worker_processes import WorkerProcess, preload_modules

KINDS = ("any moment", "in a commit", "in the cache")
STEPS = "training.steps=60"


@dataclass
class Count:
    """What came of the kills so far."""

    kills: int = 0
    stuck: int = 0  # lives that ended by themselves, and badly
    lost: int = 0  # steps that were committed and are gone
    unfinished: int = 0  # commits that a kill cut short


def wait(
    training: TrainingRun, life: WorkerProcess, kind: str, chance: random.Random, seconds: float
) -> None:
    """Until the moment to kill; what it looks for may not come in this life."""
    if kind == "in a commit":
        left = training.unfinished()
        wanted = training.committed() + 3 * chance.randint(0, 4)
        life.until(lambda: training.committed() >= wanted and training.unfinished() > left)
        time.sleep(chance.uniform(0, 0.006))
    elif kind == "in the cache":
        life.until(training.caching)
        time.sleep(chance.uniform(0, 0.004))
    else:
        life.for_seconds(chance.uniform(0, seconds))


def forget_cache(training: TrainingRun) -> None:
    """Away with what the cache holds whole, so that the next life writes it anew."""
    for path in training.cache.glob("jumok/tokens/*.arrow"):
        path.unlink()


def live_and_die(
    training: TrainingRun,
    count: Count,
    kinds: Counter[str],
    chance: random.Random,
    seconds: float,
    most: int,
) -> bool:
    """One training through at most `most` deaths to its end; whether it got there."""
    deaths = 0
    while True:
        kind = chance.choice(KINDS)
        if kind == "in the cache":
            forget_cache(training)
        left = training.unfinished()
        life = training.start()
        if deaths < most:
            wait(training, life, kind, chance, seconds)
            committed = training.committed()
            life.send(signal.SIGKILL)
        code = life.end()
        if code == 0:
            return True
        if code != -signal.SIGKILL:
            count.stuck += 1
            print(life.said[-2000:], file=sys.stderr)
            return False
        deaths += 1
        kinds[kind] += 1
        count.kills += 1
        count.unfinished += bool(training.unfinished() - left)
        count.lost += max(0, committed - training.newest())


def kills(wanted: int, seed: int, folder: Path, proof: Proof) -> tuple[Count, int, int]:
    """So many kills; what came of them, the trainings killed, those that ended differently."""
    chance, count, kinds = random.Random(seed), Count(), Counter[str]()
    recipe = write_corpus(folder / "corpus")
    alone = TrainingRun(recipe, folder / "alone", STEPS)
    begun = time.monotonic()
    if alone.start().end():
        raise SystemExit(f"the training that was left alone failed: {alone.log.read_text()}")
    seconds = time.monotonic() - begun
    story, runs, different = alone.story(), 0, 0
    while count.kills < wanted:
        runs += 1
        training = TrainingRun(recipe, folder / f"run-{runs}", STEPS)
        before = count.kills
        most = min(12, wanted - count.kills)
        ended = live_and_die(training, count, kinds, chance, seconds, most)
        unlike = differences(story, training.story()) if ended else ["did not end"]
        different += bool(unlike)
        verdict = f"DIFFERENT: {', '.join(unlike)}" if unlike else "the same bits"
        proof.say(f"training {runs:>3}  {count.kills - before:>3} kills  {verdict}")
        if not unlike:
            for path in (training.run, training.cache):
                shutil.rmtree(path, ignore_errors=True)
    proof.say(f"kills by kind: {', '.join(f'{kinds[kind]} {kind}' for kind in KINDS)}")
    return count, runs, different


def main() -> int:
    """Kill, count, compare."""
    words = parser("Kill trainings at random moments.")
    words.add_argument("--kills", type=int, default=500)
    words.add_argument("--seed", type=int, default=0)
    options = words.parse_args()
    proof = Proof("kills", f"{options.kills} SIGKILLs at random moments of real trainings")
    preload_modules()
    with temp_folder() as name:
        count, runs, different = kills(options.kills, options.seed, Path(name), proof)
    proof.figures |= {**vars(count), "trainings": runs, "different": different}
    return proof.end(
        {
            f"{options.kills} kills": count.kills >= options.kills,
            "no training that needs a person": count.stuck == 0,
            "every training ends with the bits of the one left alone": different == 0,
            "no step lost that was committed": count.lost == 0,
        }
    )


if __name__ == "__main__":
    sys.exit(main())
