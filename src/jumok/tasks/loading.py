"""From a folder to a model that answers."""

from pathlib import Path

import torch
from torch import nn

from jumok.config import build
from jumok.errors import InputError
from jumok.models import EncoderDecoder
from jumok.tasks.answering import Loaded
from jumok.tasks.classification import build_classifier
from jumok.tasks.recipe import ModelConfig, Recipe
from jumok.tasks.run import Run


def build_model(recipe: Recipe, labels: tuple[str, ...]) -> nn.Module:
    """The model a recipe describes, freshly initialised."""
    if recipe.task == "sequence_to_sequence":
        return EncoderDecoder(recipe.model)
    return build_classifier(recipe.model, len(labels))


def load(folder: str | Path, device: str = "cpu") -> Loaded:
    """A trained run, ready to answer: eval mode, no gradients.

    Raises InputError when the folder holds no finished model, or files of different runs.
    """
    run = Run.existing(Path(folder))
    config = run.read_model_config()
    recipe = run.recipe()
    vocabulary = run.vocabulary()
    if vocabulary.fingerprint != config["vocabulary_sha256"]:
        raise InputError(
            f"{run.vocabulary_path} is not the vocabulary {run.weights_path.name} was trained "
            "with; restore the run's own file"
        )
    if (
        build(ModelConfig, config["model"], "model")
        != recipe.with_vocabulary(len(vocabulary)).model
    ):
        raise InputError(
            f"{run.config_path} and {run.recipe_path.name} describe different models; "
            "restore the run's own files"
        )
    recipe = recipe.with_vocabulary(len(vocabulary))
    labels = tuple(config["labels"])
    model = build_model(recipe, labels)
    run.load_weights(model)
    return Loaded(model, vocabulary, recipe, labels, torch.device(device))
