"""Choose the size of a model by the minutes of its training and the speed of this machine."""

import copy
import time
from typing import Any

import torch
from torch import nn

from jumok.data.splits import Splits
from jumok.errors import InputError, Message
from jumok.models.weights import named_weights
from jumok.ranks import is_main_process
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
from jumok.tasks.recipe.auto_size import SIZES, TOKENS_PER_WEIGHT, useful_tokens, with_size
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.registry import get_task
from jumok.tasks.runs.new_model import build_model
from jumok.tasks.shared.recipe_job import RecipeJob
from jumok.terminal import print_notice
from jumok.training.estimate import estimate

TIMED_STEPS = 3  # of each size


def choose_size(
    recipe: Recipe, splits: Splits, tokenizers: TokenizerPair, device: torch.device
) -> Recipe:
    """The recipe with the largest model that reads enough tokens in `training.minutes`.

    Enough are TOKENS_PER_WEIGHT for each weight of its layers. Some steps of each size are timed,
    from small to large; the speed is that of this machine under its current load. Prints what was
    chosen.
    """
    assert recipe.training.minutes is not None  # checked with the recipe
    started = time.monotonic()
    job: RecipeJob[Any] | None = None
    best, notice = recipe, None
    for n_layers, d_model in SIZES:
        each = with_size(recipe, n_layers, d_model)
        full = each.with_vocabulary(*tokenizers.sizes)
        try:
            model = build_model(full, splits.labels, device)
        except InputError:  # it does not fit into memory
            if notice is None:
                raise
            break
        if job is None:
            job = get_task(recipe.task).job(full)(full, model, tokenizers, splits, device)
        trial = copy.copy(job)  # with the encoded texts
        trial.recipe, trial.model = full, model
        cost = estimate(trial, full.training, device, timed_steps=TIMED_STEPS)
        tokens = 60 * recipe.training.minutes * cost.tokens_per_second
        enough = TOKENS_PER_WEIGHT * _weights_of_layers(model)
        if notice is not None and useful_tokens(tokens, cost.tokens_per_epoch) < enough:
            break
        best = each
        notice = Message(
            "train.size_chosen",
            "{n_layers} layers of d_model {d_model} for {minutes:g} minutes: {speed:,.0f} "
            'tokens/s here are {epochs:.2g} epochs (model.size = "auto", found in {seconds:.0f} s)',
            n_layers=n_layers,
            d_model=d_model,
            minutes=recipe.training.minutes,
            speed=cost.tokens_per_second,
            epochs=tokens / cost.tokens_per_epoch,
            seconds=time.monotonic() - started,
        )
    if notice is not None and is_main_process():
        print_notice(notice)
    return best


def _weights_of_layers(model: nn.Module) -> int:
    """The weights without the tables of tokens and positions."""
    tables = {
        id(weight)
        for module in model.modules()
        if isinstance(module, nn.Embedding)
        for weight in module.parameters()
    }
    return sum(p.numel() for p in named_weights(model).values() if id(p) not in tables)
