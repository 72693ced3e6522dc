"""The training job of each recipe."""

from collections.abc import Mapping
from typing import Any

from jumok.lab.distillation.state_distillation import StateDistillationJob
from jumok.lab.distillation.vector_distillation import VectorDistillationJob
from jumok.tasks.jobs.causal_lm import CausalLMJob
from jumok.tasks.jobs.masked_lm import MaskedLMJob
from jumok.tasks.jobs.recipe_job import RecipeJob
from jumok.tasks.jobs.seq2seq import Seq2SeqJob
from jumok.tasks.jobs.sequence_classification import (
    ClassificationJob,
    MultiLabelJob,
    RegressionJob,
)
from jumok.tasks.jobs.similarity import SimilarityJob
from jumok.tasks.jobs.token_classification import TokenClassificationJob
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.task_spec import TaskName

JOBS: Mapping[TaskName, type[RecipeJob[Any]]] = {
    "classification": ClassificationJob,
    "multi_label_classification": MultiLabelJob,
    "regression": RegressionJob,
    "similarity": SimilarityJob,
    "tagging": TokenClassificationJob,
    "sequence_to_sequence": Seq2SeqJob,
    "language_modeling": CausalLMJob,
    "masked_language_modeling": MaskedLMJob,
}

DISTILLATION_JOBS: Mapping[TaskName, type[RecipeJob[Any]]] = {
    "similarity": VectorDistillationJob,
    "masked_language_modeling": StateDistillationJob,
}


def job_class(recipe: Recipe) -> type[RecipeJob[Any]]:
    """The training job of a recipe."""
    if recipe.distillation.teachers:
        return DISTILLATION_JOBS.get(recipe.task, JOBS[recipe.task])
    return JOBS[recipe.task]
