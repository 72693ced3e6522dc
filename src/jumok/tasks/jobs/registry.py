"""The training job of each task."""

from collections.abc import Mapping
from typing import Any

from jumok.tasks.jobs.causal_lm import CausalLMJob
from jumok.tasks.jobs.masked_lm import MaskedLMJob
from jumok.tasks.jobs.recipe_job import RecipeJob
from jumok.tasks.jobs.seq2seq import Seq2SeqJob
from jumok.tasks.jobs.sequence_classification import ClassificationJob, RegressionJob
from jumok.tasks.jobs.token_classification import TokenClassificationJob
from jumok.tasks.recipe.task_spec import TaskName

JOBS: Mapping[TaskName, type[RecipeJob[Any]]] = {
    "classification": ClassificationJob,
    "regression": RegressionJob,
    "tagging": TokenClassificationJob,
    "sequence_to_sequence": Seq2SeqJob,
    "language_modeling": CausalLMJob,
    "masked_language_modeling": MaskedLMJob,
}
