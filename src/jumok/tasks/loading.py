"""From a folder to a model that answers."""

from pathlib import Path

from jumok.config import build
from jumok.errors import InputError
from jumok.tasks.answering import Loaded
from jumok.tasks.known import task_of
from jumok.tasks.recipe import ModelConfig
from jumok.tasks.run import Run
from jumok.training.machine import find_device


def load(folder: str | Path, device: str = "auto") -> Loaded:
    """A trained run, ready to answer: eval mode, no gradients.

    `device` is "auto" (the first of cuda, mps and cpu that is there) or a device's name. A folder
    without vocabulary.model loads as well, and answers to ids only. Raises InputError when the
    folder holds no finished model, or files of different runs.
    """
    run = Run.existing(Path(folder))
    config = run.read_model_config()
    recipe = run.recipe()
    described = build(ModelConfig, config["model"], "model")
    vocabulary = run.vocabulary() if run.vocabulary_path.is_file() else None
    if vocabulary is not None and vocabulary.fingerprint != config["vocabulary_sha256"]:
        raise InputError(
            f"{run.vocabulary_path} is not the vocabulary {run.weights_path.name} was trained "
            "with; restore the run's own file"
        )
    recipe = recipe.with_vocabulary(described.vocabulary_size)
    if described != recipe.model or (
        vocabulary is not None and len(vocabulary) != described.vocabulary_size
    ):
        raise InputError(
            f"{run.config_path} and {run.recipe_path.name} describe different models; "
            "restore the run's own files"
        )
    labels = tuple(config["labels"])
    model = task_of(recipe).model(recipe.model, labels)
    run.load_weights(model)
    return Loaded(model, vocabulary, recipe, labels, find_device(device))
