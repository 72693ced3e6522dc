"""The mean of a run's last checkpoints: steadier weights than those of any one step.

Vaswani et al. 2017, section 6.1: the base models average the last 5 checkpoints.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from jumok.device import peak_memory_bytes, versions
from jumok.errors import InputError
from jumok.models.weights import load_weights, named_weights
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.evaluate import evaluate, evaluation_tables, report_bad_rows
from jumok.tasks.runs.load import load
from jumok.tasks.runs.run import Run
from jumok.tasks.runs.train import TrainingResult
from jumok.training.checkpoints.checkpoint import Checkpoint
from jumok.training.checkpoints.store import CheckpointStore


def average_checkpoints(folder: Path, last: int, out: Path) -> TrainingResult:
    """A new run in `out` with the mean of the last `last` checkpoints of the run in `folder`.

    It is scored on the development split, as is what the run itself came to. The weights averaged
    are those of the steps themselves, not their running average (`training.ema_decay`). Raises InputError
    when the run is not finished, `out` holds a run, or so many checkpoints were not kept.
    """
    begin = time.monotonic()
    run = Run.open(folder)
    Run(out).check_absent()
    loaded = load(folder)
    checkpoints = _last(run, last)
    (dev,) = evaluation_tables(loaded.recipe, "dev", loaded.labels).values()
    report_bad_rows([dev])
    before = evaluate(loaded, dev, "dev").scores
    load_weights(loaded.model, mean_weights([each.load()["model"] for each in checkpoints]))
    after = evaluate(loaded.refreshed(), dev, "dev").scores
    averaged = _write(run, loaded, out)
    results = {
        "name": loaded.recipe.name,
        **after,
        "others": [],
        "averaged_steps": sorted(each.step for each in checkpoints),
        "before": before,
        "seed": loaded.recipe.seed,
        "parameters": sum(p.numel() for p in named_weights(loaded.model).values()),
        "wall_seconds": round(time.monotonic() - begin, 1),
        "peak_memory_bytes": peak_memory_bytes(),
        "versions": versions(),
    }
    averaged.write_json(averaged.results_path, results)
    return TrainingResult(averaged, results)


def mean_weights(weights: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each tensor, summed in float64.

    >>> mean([{"bias": torch.tensor([1.0, 4.0])}, {"bias": torch.tensor([3.0, 0.0])}])
    {'bias': tensor([2., 2.])}
    """
    first = weights[0]
    return {
        name: torch.stack([each[name].double() for each in weights]).mean(0).to(tensor.dtype)
        for name, tensor in first.items()
    }


def _last(run: Run, last: int) -> list[Checkpoint]:
    """The newest checkpoints of a run, as many as asked for."""
    keep = run.recipe().training.keep_checkpoints
    if not 2 <= last <= keep:
        raise InputError(
            f"a mean of the last {last} checkpoints was asked for, and the run keeps {keep}; ask "
            f"for 2 to {keep}, or train with a larger training.keep_checkpoints"
        )
    found = CheckpointStore(run.folder, keep).last(last)
    if len(found) < last:
        raise InputError(
            f"a mean of the last {last} checkpoints was asked for, and {len(found)} sound ones are "
            f"in {run.folder}; train longer, or write them more often (training.evaluate_every)"
        )
    alike = {key: found[0].metadata.get(key) for key in ("vocabulary", "target_vocabulary", "data")}
    for each in found:
        if not each.belongs_to({"recipe": run.recipe_fingerprint(), **alike}):
            raise InputError(
                f"{each.path} is not of the run whose folder it lies in; move it away, and average "
                "what is left"
            )
    return found


def _write(run: Run, loaded: Pipeline, out: Path) -> Run:
    """The run in its new folder: the same recipe and vocabularies, other weights."""
    vocabularies = run.vocabularies()
    averaged = Run.create(out, run.recipe(), vocabularies)
    averaged.save_model(loaded.model, loaded.recipe, loaded.labels, vocabularies.checksums)
    return averaged
