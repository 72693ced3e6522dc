"""Saved and loaded: written as a run's model and opened again."""

import tempfile
from pathlib import Path

import torch

from jumok.checks.invariance import NotApplicable
from jumok.checks.target import Answers, Subject, batched
from jumok.tasks.runs.load import load
from jumok.tasks.runs.run import Run


def restored(subject: Subject) -> Answers:
    """In one batch, by a model that was read from the files of this one."""
    loaded = subject.loaded
    with torch.device("meta"):
        described = loaded.task.build_model(loaded.recipe.model, loaded.labels)
    if type(described) is not type(loaded.model):
        name = type(loaded.model).__name__
        raise NotApplicable(f"no task of ours has this {name}, and runs are saved with their task")
    with tempfile.TemporaryDirectory(prefix="jumok-check-") as folder:
        run = Run(Path(folder))
        run.write_text(run.recipe_path, loaded.recipe.to_toml())
        run.save_model(loaded.model, loaded.recipe, loaded.labels, {"vocabulary": ""})
        again = load(folder, str(loaded.device)).model.train(loaded.model.training)
    return batched(subject.with_model(again))
