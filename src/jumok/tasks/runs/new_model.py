"""The model of a recipe before its training, if it fits into memory."""

from dataclasses import replace

import torch
from torch import nn

from jumok.device import memory_bytes
from jumok.errors import InputError
from jumok.models.size import min_bytes, min_parameter_count
from jumok.seeding import derive_seed
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import ModelConfig
from jumok.tasks.registry import TRANSFORMER, get_task
from jumok.training.config import TrainingConfig

WEIGHT_COPIES = 4  # float32 per weight: itself, its gradient, AdamW's two moments


def build_model(recipe: Recipe, labels: tuple[str, ...], device: torch.device) -> nn.Module:
    """The model of a recipe on a device; its initial weights are determined by the seed.

    Raises InputError, before it is built, for a model that does not fit into memory.
    """
    torch.manual_seed(derive_seed(recipe.seed, "weights"))
    if recipe.model.architecture == TRANSFORMER:
        check_memory(recipe.model, recipe.training)
    return get_task(recipe.task).new_model(recipe.model, labels).to(device)


def check_memory(config: ModelConfig, training: TrainingConfig) -> None:
    """Raise InputError for a model whose weights alone do not fit into memory in training.

    Activations, which `jumok train --dry-run` measures, are not included. Frozen weights have no
    gradient, and each process of a sharded training has a part of the weights.
    """
    if config.kind == "encoder_decoder" and config.n_decoder_layers is None:
        config = replace(config, n_decoder_layers=config.n_layers)
    trains_all = not training.freeze and not training.lora.rank and training.sharding == "none"
    required = min_bytes(config, copies=WEIGHT_COPIES if trains_all else 1)
    available = memory_bytes()
    if required > available:
        raise InputError(
            "run.model_too_large",
            "the model must fit into the {available:,.0f} GB of this machine, got at least "
            "{min_parameter_count:,} parameters, which need {required:,.0f} GB in training; "
            "reduce model.d_model, d_ff, n_layers, max_length or the vocabulary",
            available=available / 2**30,
            min_parameter_count=min_parameter_count(config),
            required=required / 2**30,
        )
