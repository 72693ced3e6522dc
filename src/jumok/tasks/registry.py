"""The eight tasks by the name in a recipe."""

from collections.abc import Mapping

from jumok.tasks.causal_lm import CausalLMTask
from jumok.tasks.classification import ClassificationTask
from jumok.tasks.masked_lm import MaskedLMTask
from jumok.tasks.multi_label import MultiLabelTask
from jumok.tasks.pipeline.pipeline import Task
from jumok.tasks.recipe.task_spec import TaskName
from jumok.tasks.regression import RegressionTask
from jumok.tasks.seq2seq import Seq2SeqTask
from jumok.tasks.similarity import SimilarityTask
from jumok.tasks.token_classification import TokenClassificationTask

TASKS: Mapping[TaskName, Task] = {
    "classification": ClassificationTask(),
    "multi_label_classification": MultiLabelTask(),
    "regression": RegressionTask(),
    "similarity": SimilarityTask(),
    "tagging": TokenClassificationTask(),
    "sequence_to_sequence": Seq2SeqTask(),
    "language_modeling": CausalLMTask(),
    "masked_language_modeling": MaskedLMTask(),
}
