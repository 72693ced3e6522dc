"""Objectives of pretraining on equal compute, compared on the dev scores of three tasks.

    python benchmarks/pretraining.py [key=value ...] --out RUNS [--steps 900] [--seeds 0 1]

Each objective is trained by the recipe `ko-small` with the same overrides, for `--steps` steps of
the first one or as many of its own as take the same processor time, which is measured before in
turns. Then three tasks begin from it. Their test scores are not compared: the choice is made on
dev.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from trained_runs import results_of
from turns import heading

from jumok.data.splits import Splits
from jumok.device import find_device, resolve_dtype
from jumok.models.weights import named_weights
from jumok.tasks.inputs.masking import MaskedRows, replace_masked
from jumok.tasks.masked_lm import MaskedBatch, MaskedLMJob, MaskedLMTask, masked_hidden
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.setup import prepare_training
from jumok.tasks.runs.train import resume, train
from jumok.text.ragged import Ragged
from jumok.training.mixed_precision import autocast_model
from jumok.training.optimizer import Optimizer

RESULTS = Path(__file__).parent / "results" / "pretraining.txt"
ALONE = ["distillation.teachers=[]", "distillation.layer=0"]
FALLING = [*ALONE, "masking.mlm_probability=0.3", "masking.final_probability=0.15"]
REPLACED = ["model.generator=0.25"]
OBJECTIVES = {
    "masked, 15 %": ALONE,
    "masked, 30 % falling to 15 %": FALLING,
    "the same, adaptive": FALLING,
    "replaced tokens, 15 %": [*REPLACED, *ALONE],
    "replaced tokens, falling, adaptive": [*REPLACED, *FALLING],
}
FEW = ["data.train_rows=2000", "training.steps=200", "training.batch_tokens=2048"]
FEW += ["training.warmup_steps=20", "training.evaluate_every=50", "training.ema_decay=0.98"]
FINE = ["training.learning_rate=5e-4", "training.layer_decay=0.8"]
TASKS = {
    "nsmc": ["nsmc-pretrained", "data.dev_rows=4000", "data.test_rows=100", *FEW],
    "ynat": ["ynat", "data.dev_rows=4000", "data.test_rows=100", *FINE, *FEW],
    "question_pair": ["question_pair", *FINE, "training.epochs=3", "data.test_rows=100"],
}
TIMED_STEPS = 8  # of each objective, in turns


class AdaptiveMaskedLMJob(MaskedLMJob):
    """Masks the pieces that the model predicts badly more often (Edman and Fraser 2025).

    A piece is chosen with a weight that is its mean loss of late; the number of masked tokens of a
    text does not change. The weights are not in the checkpoints, so a resumed run differs.
    """

    MEMORY = 0.9  # of the mean loss of a piece, per occurrence in a batch
    SAMPLED = 256  # masked tokens of a batch whose losses are counted, which takes little time

    def prepare(self, splits: Splits) -> None:
        """All pieces begin with the same weight."""
        super().prepare(splits)
        self.difficulty = torch.full((len(self.pieces.maskable),), 5.0)

    def mask(self, rows: Ragged, epoch: int, batch: int, n_batches: int) -> MaskedRows:
        """The tokens with the smallest exponential variables, whose rates are the weights."""
        rng = np.random.default_rng([self.recipe.seed, epoch, batch])
        maskable = self.pieces.maskable[rows.ids]
        weight = self.difficulty.numpy()[rows.ids] * maskable
        key = rng.exponential(size=len(rows.ids)) / np.maximum(weight, 1e-6)
        owner = np.repeat(np.arange(len(rows)), rows.lengths)
        order = np.lexsort((key, owner))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order)) - np.repeat(rows.offsets[:-1], rows.lengths)
        n = np.bincount(owner, maskable, minlength=len(rows))
        share = self.recipe.masking.probability(epoch + batch / n_batches)
        budget = np.maximum(np.floor(share * n + 0.5), 1)
        return replace_masked(rows, (rank < budget[owner]) & maskable, self.pieces, rng)

    def loss(self, batch: MaskedBatch) -> Tensor:
        """The loss of the objective; the mean losses of the masked pieces change."""
        hidden, output = masked_hidden(self.model, batch)
        assert isinstance(output, torch.nn.Linear)
        with torch.no_grad():
            some = torch.randperm(len(hidden), device=hidden.device)[: self.SAMPLED]
            logits, labels = output(hidden[some]).float(), batch.labels[some]
            nats = F.cross_entropy(logits, labels, reduction="none").cpu()
            labels = labels.cpu()
            summed = torch.zeros_like(self.difficulty).index_add_(0, labels, nats)
            count = torch.bincount(labels, minlength=len(summed))
            kept = self.MEMORY**count
            new = summed / count.clamp(min=1)
            self.difficulty = kept * self.difficulty + (1 - kept) * new
        return self.loss_of(hidden, output, batch)


def main() -> None:
    """Train what is missing, then print and keep the table."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--steps", type=int, default=900)
    arguments.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    arguments.add_argument("overrides", nargs="*")
    given = arguments.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    seeds = " ".join(map(str, given.seeds))
    words = ["python benchmarks/pretraining.py", *given.overrides]
    lines = [heading(f"{' '.join(words)} --out RUNS --steps {given.steps} --seeds {seeds}")]
    cells = "".join(f"  {task:>16}" for task in TASKS)
    lines.append(f"{'dev scores':<36} {'steps':>6}{cells}  {'mean':>6}")
    costs = _costs(given.out, given.overrides)
    first = next(iter(costs.values()))
    for objective in OBJECTIVES:
        steps = round(given.steps * first["seconds"] / costs[objective]["seconds"])
        words = [f"training.steps={steps}"]
        if OBJECTIVES[objective][-1] == FALLING[-1]:
            words.append(f"masking.falling_epochs={steps / costs[objective]['batches']}")
        run = given.out / objective.replace(" ", "-").replace(",", "").replace("%", "percent")
        _pretrained(objective, run, [*given.overrides, *words])
        scores = [[_dev_score(task, run, seed) for seed in given.seeds] for task in TASKS]
        row = "".join(f"  {_summary(each):>16}" for each in scores)
        lines.append(f"{objective:<36} {steps:6,}{row}  {mean(map(mean, scores)):6.4f}")
        print(lines[-1], flush=True)
    seeds = "mean and half the range of the seeds" if len(given.seeds) > 1 else "one seed"
    text = "\n".join([*lines, "", seeds, ""])
    RESULTS.write_text(text, encoding="utf-8")


def _summary(scores: Sequence[float]) -> str:
    """The mean of the seeds, and half their range if there are several."""
    spread = f" ±{(max(scores) - min(scores)) / 2:.3f}" if len(scores) > 1 else ""
    return f"{mean(scores):.4f}{spread}"


def _words(objective: str, overrides: Sequence[str]) -> list[str]:
    return ["training.minutes=1e6", "masking.packed=false", *OBJECTIVES[objective], *overrides]


def _use_job(objective: str) -> None:
    """Let `train` use the job of the objective."""
    job = AdaptiveMaskedLMJob if "adaptive" in objective else MaskedLMJob
    MaskedLMTask.job = lambda self, recipe: job  # type: ignore[method-assign]


def _costs(out: Path, overrides: Sequence[str]) -> dict[str, dict[str, float]]:
    """Processor seconds of a step and batches of an epoch of each objective, measured once."""
    path = out / "costs.json"
    if not path.exists():
        steps = {objective: TimedSteps(objective, overrides) for objective in OBJECTIVES}
        for number in range(-1, TIMED_STEPS):  # the first is the warm-up
            for timed in steps.values():
                timed.run(max(number, 0), counts=number >= 0)
        found = {name: {"seconds": s.seconds, "batches": len(s.epoch)} for name, s in steps.items()}
        path.write_text(json.dumps(found, indent=1), encoding="utf-8")
    costs: dict[str, dict[str, float]] = json.loads(path.read_text(encoding="utf-8"))
    return costs


class TimedSteps:
    """Training steps of an objective, and their processor time."""

    def __init__(self, objective: str, overrides: Sequence[str]) -> None:
        _use_job(objective)
        words = ["masking.cooccurrence_init=false", "training.steps=100"]
        recipe = load_recipe("ko-small", [*_words(objective, overrides), *words])
        self.device = find_device(recipe.device)
        self.job = prepare_training(recipe, self.device).job
        self.epoch = self.job.epoch(0)
        self.optimizer = Optimizer(named_weights(self.job.model), recipe.training)
        self.dtype = resolve_dtype(recipe.training.precision, self.device)
        self.seconds = 0.0

    def run(self, number: int, *, counts: bool) -> None:
        """One step; its time is added if it counts."""
        self.job.model.train()
        begin = time.process_time()
        batch = self.epoch[number * (len(self.epoch) // TIMED_STEPS)]
        with autocast_model(self.job.model, self.device, self.dtype):
            loss = self.job.loss(batch) / max(batch.n_targets, 1)
        loss.backward()
        self.optimizer.step(0.0)
        self.seconds += counts * (time.process_time() - begin)


def _pretrained(objective: str, run: Path, overrides: Sequence[str]) -> None:
    """Pretrain a run of the objective if it is missing."""
    if (run / "results.json").exists():
        return
    _use_job(objective)
    if (run / "recipe.toml").exists():
        resume(run)
    else:
        train(load_recipe("ko-small", _words(objective, overrides)), run)


def _dev_score(task: str, run: Path, seed: int) -> float:
    """A task's dev score when it begins from a run."""
    folder = run.parent / f"{run.name}-{task}-{seed}"
    words = [*TASKS[task], f"model.init={run}", f"seed={seed}"]
    return float(results_of(folder, words)["dev"]["score"])


if __name__ == "__main__":
    main()
