"""The tasks, and the parts that only some of their trainings need, by name."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jumok.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor, nn

    from jumok.tasks.shared.recipe_job import RecipeJob
    from jumok.tasks.task import Task

TASKS: "Registry[type[Task]]" = Registry(
    "jumok.tasks",
    "task",
    {
        "classification": "jumok.tasks.classification:ClassificationTask",
        "multi_label_classification": "jumok.tasks.multi_label:MultiLabelTask",
        "regression": "jumok.tasks.regression:RegressionTask",
        "similarity": "jumok.tasks.similarity:SimilarityTask",
        "tagging": "jumok.tasks.token_classification:TokenClassificationTask",
        "sequence_to_sequence": "jumok.tasks.sequence_to_sequence:Seq2SeqTask",
        "language_modeling": "jumok.tasks.causal_lm:CausalLMTask",
        "masked_language_modeling": "jumok.tasks.masked_lm:MaskedLMTask",
    },
)

JOBS: "Registry[type[RecipeJob[Any]]]" = Registry(
    "jumok.jobs",
    "job",
    {
        "soft_labels": "jumok.lab.distillation.distillation:DistillationJob",
        "teacher_vectors": "jumok.lab.distillation.vector_distillation:VectorDistillationJob",
        "teacher_states": "jumok.lab.distillation.state_distillation:StateDistillationJob",
        "replaced_tokens": "jumok.lab.models.replaced_tokens_job:ReplacedTokenJob",
    },
)
MODELS: "Registry[Callable[..., nn.Module]]" = Registry(
    "jumok.models",
    "model",
    {"replaced_tokens": "jumok.lab.models.replaced_tokens:ReplacedTokenModel"},
)
EMBEDDINGS: "Registry[Callable[..., Tensor]]" = Registry(
    "jumok.embeddings",
    "embedding",
    {"cooccurrence": "jumok.lab.models.cooccurrence:cooccurrence_embedding"},
)


def get_task(name: str) -> "Task":
    """The task with this name, imported at its first use. Raises InputError for an unknown one.

    >>> get_task("regression").metrics
    ('pearson', 'spearman')
    """
    return TASKS.get(name)()


def tasks_with(quality: "Callable[[Task], bool]") -> list[str]:
    """The names of all tasks with a quality, for messages: every task is imported.

    >>> tasks_with(lambda task: task.generates)
    ['sequence_to_sequence', 'language_modeling']
    """
    return [name for name in TASKS.names() if quality(get_task(name))]
