"""The training job of each recipe.

Some settings of a task have a job of their own, found by the name TASK.SETTING.
"""

from collections.abc import Mapping
from typing import Any

from jumok.registry import Registry
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

LAB = "jumok.lab"
SPECIAL_JOBS = Registry[type[RecipeJob[Any]]](
    "jumok.jobs",
    "job",
    {
        "classification.distillation": f"{LAB}.distillation.labels:DistillationJob",
        "similarity.distillation": f"{LAB}.distillation.vectors:VectorDistillationJob",
        "masked_language_modeling.distillation": f"{LAB}.distillation.states:StateDistillationJob",
        "masked_language_modeling.generator": f"{LAB}.models.replaced_token_job:ReplacedTokenJob",
    },
)


def job_class(recipe: Recipe) -> type[RecipeJob[Any]]:
    """The training job of a recipe."""
    if recipe.distillation.teachers:
        return SPECIAL_JOBS.get(f"{recipe.task}.distillation")
    if recipe.model.generator:
        return SPECIAL_JOBS.get(f"{recipe.task}.generator")
    return JOBS[recipe.task]
