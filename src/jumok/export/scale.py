"""The scores of a regression on the scale of the data, which only its recipe knows."""

from dataclasses import replace

import torch
from torch import nn

from jumok.models import TextClassifier
from jumok.nn.hooks import shared_copy
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.recipe.tables import RegressionConfig


def on_the_scale_of_the_data(loaded: Pipeline) -> Pipeline:
    """The same answers, given by the model alone: [regression] is part of its last maps.

    Scores from 0 to 5 are learnt as 0 to 1, so 5 w and 5 b stand in the place of w and b. Other
    models, and those that were imported, are given back as they are.
    """
    scale, foreign = loaded.recipe.regression, loaded.origin is not None
    if loaded.recipe.task != "regression" or foreign or scale == RegressionConfig():
        return loaded

    @torch.no_grad()
    def scaled(model: nn.Module) -> nn.Module:
        found = shared_copy(model)
        assert isinstance(found, TextClassifier)
        weight, bias = found.output.weight, found.output.bias
        found.output.weight = nn.Parameter(weight * scale.span, requires_grad=False)
        found.output.bias = nn.Parameter(bias * scale.span + scale.lowest, requires_grad=False)
        if found.similarity is not None:
            weight = found.similarity.weight * scale.span
            found.similarity.weight = nn.Parameter(weight, requires_grad=False)
        return found

    other = loaded.with_models(scaled)
    other.recipe = replace(loaded.recipe, regression=RegressionConfig())
    return other
