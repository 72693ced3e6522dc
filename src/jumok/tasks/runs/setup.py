"""What a training is made of: vocabularies, a model, the weights it begins from, a job."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from jumok.data.load import load_splits
from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.errors import InputError
from jumok.models.weights import named_weights
from jumok.seeding import derive_seed
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair, non_default_keys, train_or_load
from jumok.tasks.pipeline.backends import DecoderBackends
from jumok.tasks.pipeline.generation import check_decoding
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.registry import get_task
from jumok.tasks.room import check_memory
from jumok.tasks.runs.initialize_from import LoadReport, initialize_from, load_tokenizers
from jumok.training.job import TrainingJob
from jumok.training.layer_decay import frozen_parameters


@dataclass(frozen=True)
class TrainingSetup:
    """All that a new training begins with."""

    splits: Splits
    vocabularies: TokenizerPair
    model: nn.Module
    load_report: LoadReport | None
    job: TrainingJob[Any]


def prepare_training(recipe: Recipe, device: torch.device) -> TrainingSetup:
    """Everything up to the first step; nothing is written.

    Raises InputError or KernelError for what cannot be trained, or not be scored in the end.
    """
    DecoderBackends(recipe.decoding).check_available(device)
    splits = load_splits(recipe.data, get_task(recipe).columns(recipe))
    vocabularies = get_tokenizers(recipe, splits.train)
    vocabularies.check(recipe)
    model = build_model(recipe, vocabularies, splits.labels, device)
    check_decoding(recipe, model, vocabularies.target)
    frozen_parameters(
        named_weights(model), recipe.training.freeze
    )  # refuses words that mean no weight
    taken = initialize_weights(recipe, model, splits.labels)
    job = build_job(vocabularies.apply_to(recipe), model, vocabularies, splits, device)
    return TrainingSetup(splits, vocabularies, model, taken, job)


def get_tokenizers(recipe: Recipe, train: Table) -> TokenizerPair:
    """Those of the run a recipe begins from, or those it names or has learnt.

    What the recipe says of a vocabulary beside a run to begin from is told to count for nothing.
    """
    if not recipe.model.init:
        return train_or_load(recipe, train)
    found = load_tokenizers(Path(recipe.model.init))
    if found.joint != recipe.vocabulary.joint:
        raise InputError(
            f"{recipe.model.init} has {'one vocabulary' if found.joint else 'two vocabularies'}; "
            f"set vocabulary.joint = {'true' if found.joint else 'false'} to begin from it"
        )
    unused = non_default_keys(recipe.vocabulary)
    if unused:
        print(
            f"jumok: the vocabulary is that of {recipe.model.init}, so {' and '.join(unused)} of "
            "the recipe count for nothing",
            file=sys.stderr,
        )
    return found


def build_job(
    recipe: Recipe,
    model: nn.Module,
    vocabularies: TokenizerPair,
    splits: Splits,
    device: torch.device,
) -> TrainingJob[Any]:
    """What a trainer needs."""
    return get_task(recipe).build_job(recipe, model, vocabularies, splits, device)


def build_model(
    recipe: Recipe, vocabularies: TokenizerPair, labels: tuple[str, ...], device: torch.device
) -> nn.Module:
    """The model of a recipe on a device; its first weights follow from the seed.

    Raises InputError, before it is made, for one that no memory here holds.
    """
    torch.manual_seed(derive_seed(recipe.seed, "weights"))
    config = vocabularies.apply_to(recipe).model
    check_memory(config, learns=recipe.training)
    return get_task(recipe).build_model(config, labels).to(device)


def initialize_weights(
    recipe: Recipe, model: nn.Module, labels: tuple[str, ...]
) -> LoadReport | None:
    """The weights of the run that a recipe begins from, if it names one."""
    if not recipe.model.init:
        return None
    return initialize_from(Path(recipe.model.init), recipe, model, labels)
