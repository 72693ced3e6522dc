"""A recipe as far as its first steps: what it would cost, with nothing kept."""

from jumok.data.corpora import load_splits
from jumok.tasks.known import task_of
from jumok.tasks.preparing import job_of, new_model, new_vocabularies
from jumok.tasks.recipe import Recipe
from jumok.tasks.writing import refuse_settings
from jumok.training.estimate import Estimate, estimate
from jumok.training.machine import find_device


def dry_run(recipe: Recipe) -> Estimate:
    """Prepare a training as `train` does and measure some steps; no folder is made.

    Raises InputError for what could not be trained either.
    """
    device = find_device(recipe.device)
    splits = load_splits(recipe.data, task_of(recipe).columns(recipe))
    vocabularies = new_vocabularies(recipe, splits.train)
    vocabularies.refuse(recipe)
    model = new_model(recipe, vocabularies, splits.labels)
    refuse_settings(recipe, model, vocabularies.target)
    job = job_of(vocabularies.fit(recipe), model, vocabularies, splits, device)
    return estimate(job, recipe.training, device)
