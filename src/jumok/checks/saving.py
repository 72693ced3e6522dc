"""Saved and loaded: written as a run's model and opened again."""

import tempfile
from pathlib import Path

from jumok.checks.equality import NotApplicable
from jumok.checks.subject import Answers, Subject, batched
from jumok.models import Decoder, Encoder
from jumok.tasks.loading import load
from jumok.tasks.run import Run


def restored(subject: Subject) -> Answers:
    """In one batch, by a model that was read from the files of this one."""
    loaded = subject.loaded
    if isinstance(loaded.model, Encoder | Decoder):
        raise NotApplicable("a tower without a head has no task, and runs are saved with theirs")
    with tempfile.TemporaryDirectory(prefix="jumok-check-") as folder:
        run = Run(Path(folder))
        run.write_text(run.recipe_path, loaded.recipe.to_toml())
        run.write_model(loaded.model, loaded.recipe, loaded.labels, {"vocabulary": ""})
        again = load(folder, str(loaded.device)).model.train(loaded.model.training)
    return batched(subject.with_model(again))
