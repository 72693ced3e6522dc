"""What a training is made of: vocabularies, a model, the weights it begins from, a job."""

import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.errors import InputError
from jumok.tasks.beginning import Taken, begin_from, vocabularies_of
from jumok.tasks.known import task_of
from jumok.tasks.recipe import Recipe
from jumok.tasks.room import refuse_beyond_memory
from jumok.tasks.sequence_to_sequence import SequenceToSequence
from jumok.tasks.vocabularies import Vocabularies, learn, stated
from jumok.training.job import Job
from jumok.training.machine import find_device
from jumok.training.randomness import seed_for


def new_vocabularies(recipe: Recipe, train: Table) -> Vocabularies:
    """Those of the run a recipe begins from, or those it names or has learnt.

    What the recipe says of a vocabulary beside a run to begin from is told to count for nothing.
    """
    if not recipe.model.init:
        return learn(recipe, train)
    found = vocabularies_of(Path(recipe.model.init))
    if found.joint != recipe.vocabulary.joint:
        raise InputError(
            f"{recipe.model.init} has {'one vocabulary' if found.joint else 'two vocabularies'}; "
            f"set vocabulary.joint = {'true' if found.joint else 'false'} to begin from it"
        )
    unused = stated(recipe.vocabulary)
    if unused:
        print(
            f"jumok: the vocabulary is that of {recipe.model.init}, so {' and '.join(unused)} of "
            "the recipe count for nothing",
            file=sys.stderr,
        )
    return found


def job_of(
    recipe: Recipe,
    model: nn.Module,
    vocabularies: Vocabularies,
    splits: Splits,
    device: torch.device,
) -> Job[Any]:
    """What a trainer needs; one kind of task may write with a vocabulary of its own."""
    task = task_of(recipe)
    if isinstance(task, SequenceToSequence):
        return task.job(recipe, model, vocabularies.source, splits, device, vocabularies.target)
    return task.job(recipe, model, vocabularies.source, splits, device)


def new_model(recipe: Recipe, vocabularies: Vocabularies, labels: tuple[str, ...]) -> nn.Module:
    """The model of a recipe on its device; its first weights follow from the seed.

    Raises InputError, before it is made, for one that no memory here holds.
    """
    device = find_device(recipe.device)
    torch.manual_seed(seed_for(recipe.seed, "weights"))
    config = vocabularies.fit(recipe).model
    refuse_beyond_memory(config, learns=recipe.training)
    return task_of(recipe).model(config, labels).to(device)


def begin_weights(recipe: Recipe, model: nn.Module, labels: tuple[str, ...]) -> Taken | None:
    """The weights of the run that a recipe begins from, if it names one."""
    if not recipe.model.init:
        return None
    return begin_from(Path(recipe.model.init), recipe, model, labels)
