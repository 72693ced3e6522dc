"""A recipe as far as its first steps: what it would cost, with nothing kept."""

from jumok.device import find_device
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.runs.setup import prepare_training
from jumok.training.estimate import Cost, estimate


def dry_run(recipe: Recipe) -> Cost:
    """Prepare a training as `train` does and measure some steps; no folder is made.

    Raises InputError or KernelError for what could not be trained either.
    """
    device = find_device(recipe.device)
    return estimate(prepare_training(recipe, device).job, recipe.training, device)
