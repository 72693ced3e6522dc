"""Tiny models of every kind with random weights, as targets of checks."""

from typing import Any

import torch
from torch import nn

from jumok.checks import CheckTarget, draw_samples
from jumok.models import (
    Encoder,
    EncoderDecoder,
    EncoderDecoderClassifier,
    LanguageModel,
    MaskedLanguageModel,
    TextClassifier,
    TokenClassifier,
)
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import ModelConfig
from jumok.tasks.registry import get_task
from jumok.training.config import TrainingConfig
from tests.nn.tolerances import randomized

LABELS = ("B-PS", "I-PS", "O")
KINDS: dict[type[nn.Module], dict[str, Any]] = {
    TextClassifier: {"task": "classification"},
    TokenClassifier: {"task": "tagging"},
    MaskedLanguageModel: {"task": "masked_language_modeling"},
    LanguageModel: {"task": "language_modeling", "kind": "decoder"},
    EncoderDecoder: {"task": "sequence_to_sequence", "kind": "encoder_decoder"},
    EncoderDecoderClassifier: {"task": "classification", "kind": "encoder_decoder"},
    Encoder: {"task": "masked_language_modeling"},
}
WITH_LABELS = (TextClassifier, TokenClassifier, EncoderDecoderClassifier)


def check_target(model: type[nn.Module], **dimensions: Any) -> CheckTarget:
    """A model of this class, or of a subclass of one in KINDS, with random ids as inputs."""
    kind = next(kind for kind in KINDS if issubclass(model, kind))
    dimensions = KINDS[kind] | dimensions
    task = dimensions.pop("task")
    sizes = {"vocabulary_size": 24, "d_model": 8, "n_heads": 2, "d_ff": 12, "n_layers": 2}
    config = ModelConfig(**sizes | {"max_length": 12, "dropout": 0.0} | dimensions)
    recipe = Recipe(
        name="tiny",
        task=task,
        training=TrainingConfig(steps=1, batch_tokens=64),
        model=config,
    )
    labels = LABELS if issubclass(model, WITH_LABELS) else ()
    if kind in (TextClassifier,):
        built = model(config, len(labels), config.pooling)
    else:
        built = model(config, len(labels)) if labels else model(config)
    pipeline = get_task(recipe.task).pipeline(
        randomized(built), None, recipe, labels, torch.device("cpu")
    )
    return CheckTarget(pipeline, draw_samples(pipeline), padding_id=5)
