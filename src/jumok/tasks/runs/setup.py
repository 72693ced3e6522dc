"""The setup of a training: tokenizers, model, initial weights and job, before the first step."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from jumok.data.load import load_splits
from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.device import find_device, memory_bytes
from jumok.errors import InputError
from jumok.models.size import min_bytes, min_parameter_count
from jumok.models.weights import named_weights
from jumok.seeding import derive_seed
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair, non_default_keys
from jumok.tasks.jobs.registry import build_job
from jumok.tasks.pipeline.backends import DecoderBackends
from jumok.tasks.pipeline.generation import check_decoding
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import ModelConfig, VocabularyRecipe
from jumok.tasks.registry import get_task
from jumok.tasks.runs.initialize_from import LoadReport, initialize_from, load_tokenizers
from jumok.text.sentencepiece import SentencePieceTokenizer
from jumok.training.config import TrainingConfig
from jumok.training.estimate import Cost, estimate
from jumok.training.job import TrainingJob
from jumok.training.layer_decay import frozen_parameters

WEIGHT_COPIES = 4  # float32 per weight: itself, its gradient, AdamW's two moments


@dataclass(frozen=True)
class TrainingSetup:
    """Everything a new training starts with."""

    splits: Splits
    tokenizers: TokenizerPair
    model: nn.Module
    load_report: LoadReport | None
    job: TrainingJob[Any]


def prepare_training(recipe: Recipe, device: torch.device) -> TrainingSetup:
    """Prepare everything up to the first step; nothing is written.

    Raises InputError or KernelError for what cannot be trained, or not be evaluated in the end.
    """
    DecoderBackends(recipe.decoding).check_available(device)
    splits = load_splits(recipe.data, get_task(recipe).columns(recipe))
    tokenizers = get_tokenizers(recipe, splits.train)
    tokenizers.check(recipe)
    model = build_model(recipe, tokenizers, splits.labels, device)
    check_decoding(recipe, model, tokenizers.target)
    frozen_parameters(named_weights(model), recipe.training.freeze)  # raises for unknown names
    load_report = initialize_weights(recipe, model, splits.labels)
    job = build_job(tokenizers.apply_to(recipe), model, tokenizers, splits, device)
    return TrainingSetup(splits, tokenizers, model, load_report, job)


def dry_run(recipe: Recipe) -> Cost:
    """Prepare a training as `train` does and measure some steps; no folder is made.

    Raises InputError or KernelError as `train` does.
    """
    device = find_device(recipe.device)
    return estimate(prepare_training(recipe, device).job, recipe.training, device)


def get_tokenizers(recipe: Recipe, train: Table) -> TokenizerPair:
    """The tokenizers of `model.init`, or those that the recipe names or that are trained.

    Prints a warning when [vocabulary] is ignored because `model.init` is set.
    """
    init = recipe.model.init
    if not init:
        return train_or_load(recipe, train)
    tokenizers = load_tokenizers(Path(init))
    if tokenizers.joint != recipe.vocabulary.joint:
        raise InputError(
            f"vocabulary.joint must be {str(tokenizers.joint).lower()} to initialize from {init}, "
            f"which has {'one vocabulary' if tokenizers.joint else 'two vocabularies'}"
        )
    ignored = non_default_keys(recipe.vocabulary)
    if ignored:
        print(
            f"jumok: {' and '.join(ignored)} of the recipe are ignored, because model.init = "
            f"{init} sets the vocabulary",
            file=sys.stderr,
        )
    return tokenizers


def train_or_load(recipe: Recipe, train: Table) -> TokenizerPair:
    """Load the tokenizers that a recipe names, or train them on the training rows."""
    table = recipe.vocabulary
    if table.joint:
        tokenizer = _train_or_load(table, get_task(recipe).vocabulary_texts(recipe, train))
        return TokenizerPair(tokenizer, tokenizer)
    source = _train_or_load(table, train.column("source"))
    target = replace(table, file=table.target_file, size=table.target_size or table.size)
    try:
        return TokenizerPair(source, _train_or_load(target, train.column("target")))
    except InputError as error:
        raise InputError(f"vocabulary of the targets (vocabulary.target_size): {error}") from error


def _train_or_load(table: VocabularyRecipe, texts: Iterable[str]) -> SentencePieceTokenizer:
    if table.file:
        return SentencePieceTokenizer.load(table.file)
    return SentencePieceTokenizer.train(texts, table)


def build_model(
    recipe: Recipe, tokenizers: TokenizerPair, labels: tuple[str, ...], device: torch.device
) -> nn.Module:
    """The model of a recipe on a device; its initial weights are determined by the seed.

    Raises InputError, before it is built, for a model that does not fit into memory.
    """
    torch.manual_seed(derive_seed(recipe.seed, "weights"))
    config = tokenizers.apply_to(recipe).model
    check_memory(config, recipe.training)
    return get_task(recipe).build_model(config, labels).to(device)


def check_memory(config: ModelConfig, training: TrainingConfig) -> None:
    """Raise InputError for a model whose weights alone do not fit into memory in training.

    Activations, which `jumok train --dry-run` measures, are not included. Frozen weights have no
    gradient, and each process of a sharded training has a part of the weights.
    """
    if config.kind == "encoder_decoder" and config.n_decoder_layers is None:
        config = replace(config, n_decoder_layers=config.n_layers)
    trains_all = not training.freeze and training.sharding == "none"
    required = min_bytes(config, copies=WEIGHT_COPIES if trains_all else 1)
    available = memory_bytes()
    if required > available:
        raise InputError(
            f"the model must fit into the {available / 2**30:,.0f} GB of this machine, got at "
            f"least {min_parameter_count(config):,} parameters, which need "
            f"{required / 2**30:,.0f} GB in training; reduce model.d_model, d_ff, n_layers, "
            "max_length or the vocabulary"
        )


def initialize_weights(
    recipe: Recipe, model: nn.Module, labels: tuple[str, ...]
) -> LoadReport | None:
    """Copy the weights of `model.init` into the model, if the recipe names a run."""
    if not recipe.model.init:
        return None
    return initialize_from(Path(recipe.model.init), recipe, model, labels)
