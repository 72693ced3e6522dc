"""Average the last checkpoints of a run: less noisy weights than those of a single step.

Vaswani et al. 2017, section 6.1: the base models average the last 5 checkpoints.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from jumok.config_io import check_range
from jumok.device import peak_memory_bytes, versions
from jumok.errors import InputError
from jumok.models.weights import load_weights, named_weights
from jumok.nn.lora import merge_lora_tensors
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.evaluate import evaluate, evaluation_tables, report_bad_rows
from jumok.tasks.runs.load import load
from jumok.tasks.runs.run import Run
from jumok.tasks.runs.train import TrainingResult
from jumok.training.checkpoints.checkpoint import Checkpoint
from jumok.training.checkpoints.store import CheckpointStore


def average_checkpoints(folder: Path, last: int, out: Path) -> TrainingResult:
    """Create a run in `out` with the mean weights of the last checkpoints of the run in `folder`.

    Both are evaluated on the development split. The weights of the steps are averaged, not their
    exponential moving average (`training.ema_decay`). Raises InputError when the run is not
    finished, `out` has a run, or fewer checkpoints were kept.
    """
    start_time = time.monotonic()
    run = Run.open(folder)
    Run(out).check_absent()
    pipeline = load(folder)
    checkpoints = _last(run, last)
    (dev,) = evaluation_tables(pipeline.recipe, "dev", pipeline.labels).values()
    report_bad_rows([dev])
    before = evaluate(pipeline, dev, "dev").scores
    lora = pipeline.recipe.training.lora
    weights = [merge_lora_tensors(each.load()["model"], lora) for each in checkpoints]
    load_weights(pipeline.model, mean_weights(weights))
    after = evaluate(pipeline.refreshed(), dev, "dev").scores
    averaged = _write(run, pipeline, out)
    results = {
        "name": pipeline.recipe.name,
        **after,
        "others": [],
        "averaged_steps": sorted(each.step for each in checkpoints),
        "before": before,
        "seed": pipeline.recipe.seed,
        "parameters": sum(p.numel() for p in named_weights(pipeline.model).values()),
        "wall_seconds": round(time.monotonic() - start_time, 1),
        "peak_memory_bytes": peak_memory_bytes(),
        "versions": versions(),
    }
    averaged.write_json(averaged.results_path, results)
    return TrainingResult(averaged, results)


def mean_weights(weights: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each tensor, summed in float64.

    >>> mean_weights([{"bias": torch.tensor([1.0, 4.0])}, {"bias": torch.tensor([3.0, 0.0])}])
    {'bias': tensor([2., 2.])}
    """
    first = weights[0]
    return {
        name: torch.stack([each[name].double() for each in weights]).mean(0).to(tensor.dtype)
        for name, tensor in first.items()
    }


def _last(run: Run, last: int) -> list[Checkpoint]:
    """The newest checkpoints of a run, as many as requested."""
    keep = run.recipe().training.keep_checkpoints
    advice = "; as many as the run keeps (training.keep_checkpoints)"
    check_range("the number of checkpoints", last, f"[2, {keep}]", advice)
    found = CheckpointStore(run.folder, keep).last(last)
    if len(found) < last:
        raise InputError(
            "run.too_few_checkpoints",
            "{folder} must hold {last} valid checkpoints, got {n_found}; train longer, or save "
            "them more often (training.evaluate_every)",
            folder=run.folder,
            last=last,
            n_found=len(found),
        )
    same = {key: found[0].metadata.get(key) for key in ("vocabulary", "target_vocabulary", "data")}
    for each in found:
        if not each.belongs_to({"recipe": run.recipe_fingerprint(), **same}):
            raise InputError(
                "run.checkpoint_of_another_run",
                "{path} must be a checkpoint of the run in {folder}, got one of another run; "
                "move it away, and average the others",
                path=each.path,
                folder=run.folder,
            )
    return found


def _write(run: Run, pipeline: Pipeline, out: Path) -> Run:
    """Write the new run: the same recipe and tokenizers, other weights."""
    tokenizers = run.tokenizers()
    averaged = Run.create(out, run.recipe(), tokenizers)
    recipe, checksums = pipeline.recipe, tokenizers.checksums
    averaged.save_model(pipeline.model, recipe.task, recipe.model, pipeline.labels, checksums)
    return averaged
