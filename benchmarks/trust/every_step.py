"""Resume at each step of a training; every time the rest of it comes out bit for bit.

    python -m benchmarks.trust.every_step [--steps 200]

The training left alone commits each of its steps; dropout, token dropout, subword sampling,
clipping, warm-up, accumulation and the running average are all on. Then for each step a life goes
on from that step's checkpoint alone, to a later commit, whose bytes must be those of the training
left alone; from the first steps and from each tenth it goes on to the very end.
"""

import shutil
import sys
from pathlib import Path

from jumok.training.checkpoints.store import CheckpointStore

from .result import Proof, parser
from .training import TrainingRun, differences, temp_folder, write_corpus
from .worker_processes import preload_modules

SAMPLING = (
    "augmentation.subword_sampling=0.7",
    "augmentation.token_dropout=0.2",
    "training.checkpoint_every=1",
)
FURTHER = 3  # steps that are compared when a life does not go to the end


def copied(alone: TrainingRun, run: Path, step: int) -> TrainingRun:
    """The run as it was when `step` was its newest checkpoint."""
    run.mkdir()
    for file in alone.run.iterdir():
        if file.is_file() and file.name not in ("results.json", "model.safetensors"):
            shutil.copy(file, run)
    (run / "checkpoints").mkdir()
    store = CheckpointStore(alone.run)
    best = store.checkpoint(step).metadata["progress"]["best_step"]  # type: ignore[call-overload,index]
    for kept in {step, best} - {0}:
        shutil.copytree(store.checkpoints / f"step-{kept}", run / "checkpoints" / f"step-{kept}")
    return TrainingRun(alone.recipe, run, *alone.words)


def resumed(alone: TrainingRun, training: TrainingRun, step: int, last: int) -> list[str]:
    """What differs when `step` goes on: to the end, or to a later step where it is stopped."""
    whole = step <= FURTHER or step % 10 == 0 or step + FURTHER >= last
    life = training.start()
    if whole:
        if life.end():
            return [life.said[-500:]]
        return differences(alone.story(), training.story())
    life.until(lambda: training.committed() >= step + FURTHER)
    life.send(15)
    if life.end() != 143:
        return [life.said[-500:]]
    found = CheckpointStore(training.run).newest()
    if found is None or found.step <= step:
        return ["it did not go on"]
    wanted = CheckpointStore(alone.run).checkpoint(found.step)
    return [n for n, r in found.manifest.files.items() if r != wanted.manifest.files.get(n)]


def main() -> int:
    """Resume everywhere."""
    command = parser("Resume at each step of a training.")
    command.add_argument("--steps", type=int, default=200)
    options = command.parse_args()
    last = options.steps
    proof = Proof("every_step", f"a training of {last} steps, resumed at each of them")
    preload_modules()
    same = 0
    with temp_folder() as folder:
        recipe = write_corpus(folder / "corpus", train_rows=600)
        words = (*SAMPLING, f"training.steps={last}", f"training.keep_checkpoints={last + 1}")
        alone = TrainingRun(recipe, folder / "alone", *words)
        if alone.start().end():
            raise SystemExit(f"the training that was left alone failed: {alone.log.read_text()}")
        for step in range(1, last):
            training = copied(alone, folder / f"from-{step}", step)
            unlike = resumed(alone, training, step, last)
            same += not unlike
            if unlike:
                proof.say(f"from step {step:>3}: DIFFERENT: {', '.join(unlike)}")
            elif step % 20 == 0:
                proof.say(f"from step {step:>3}: {same} of {step} resumed to the same bits")
            shutil.rmtree(training.run)
        fresh = TrainingRun(recipe, folder / "from-0", *words)  # step 0: the training once more
        same += fresh.start().end() == 0 and not differences(alone.story(), fresh.story())
    proof.say(f"from the beginning and from each step: {same} of {last} to the same bits")
    proof.figures |= {"steps": last, "same": same}
    return proof.end({f"{last} of {last} bit for bit": same == last})


if __name__ == "__main__":
    sys.exit(main())
