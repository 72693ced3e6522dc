"""Choose the size of a model by the minutes of its training and the speed of this machine."""

import copy
import time
from typing import Any

import torch

from jumok.data.splits import Splits
from jumok.errors import Message
from jumok.models.weights import named_weights
from jumok.ranks import is_main_process
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
from jumok.tasks.recipe.auto_size import SIZES, expected_loss, with_size
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
    """The recipe with the size that promises the lowest loss after `training.minutes`.

    Some steps of each size are timed, from small to large, until a larger one promises no less; the
    speed is that of this machine under its current load. Prints what was chosen.
    """
    assert recipe.training.minutes is not None  # checked with the recipe
    started = time.monotonic()
    job: RecipeJob[Any] | None = None
    best, lowest, notice = recipe, float("inf"), None
    for n_layers, d_model in SIZES:
        each = with_size(recipe, n_layers, d_model)
        full = each.with_vocabulary(*tokenizers.sizes)
        model = build_model(full, splits.labels, device)
        if job is None:
            job = get_task(recipe.task).job(full)(full, model, tokenizers, splits, device)
        trial = copy.copy(job)  # with the encoded texts
        trial.recipe, trial.model = full, model
        cost = estimate(trial, full.training, device, timed_steps=TIMED_STEPS)
        tokens = 60 * recipe.training.minutes * cost.tokens_per_second
        weights = sum(
            weight.numel()
            for name, weight in named_weights(model).items()
            if "embedding" not in name
        )
        loss = expected_loss(weights, tokens, cost.tokens_per_epoch)
        if loss >= lowest:
            break
        best, lowest = each, loss
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
