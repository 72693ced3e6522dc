"""The training job of each task."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from jumok.data.splits import Splits
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
from jumok.tasks.jobs.causal_lm import CausalLMJob
from jumok.tasks.jobs.masked_lm import MaskedLMJob
from jumok.tasks.jobs.seq2seq import Seq2SeqJob
from jumok.tasks.jobs.sequence_classification import ClassificationJob, RegressionJob
from jumok.tasks.jobs.token_classification import TokenClassificationJob
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.task_spec import TaskName
from jumok.training.job import TrainingJob

JOBS: Mapping[TaskName, Callable[..., TrainingJob[Any]]] = {
    "classification": ClassificationJob,
    "regression": RegressionJob,
    "tagging": TokenClassificationJob,
    "sequence_to_sequence": Seq2SeqJob,
    "language_modeling": CausalLMJob,
    "masked_language_modeling": MaskedLMJob,
}


def build_job(
    recipe: Recipe,
    model: nn.Module,
    tokenizers: TokenizerPair,
    splits: Splits,
    device: torch.device,
) -> TrainingJob[Any]:
    """The training job of a recipe's task."""
    return JOBS[recipe.task](recipe, model, tokenizers, splits, device)
