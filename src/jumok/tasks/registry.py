"""The tasks, and the parts that only some of their trainings need, by name."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jumok.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor, nn

    from jumok.tasks.recipe.tables import ModelConfig
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

LAB = "jumok.lab"

# By TASK.SETTING: settings of a task that have a job of their own.
JOBS: "Registry[type[RecipeJob[Any]]]" = Registry(
    "jumok.jobs",
    "job",
    {
        "classification.distillation": f"{LAB}.distillation.labels:DistillationJob",
        "similarity.distillation": f"{LAB}.distillation.vectors:VectorDistillationJob",
        "masked_language_modeling.distillation": f"{LAB}.distillation.states:StateDistillationJob",
        "masked_language_modeling.generator": f"{LAB}.models.replaced_tokens:ReplacedTokenJob",
    },
)
MODELS: "Registry[Callable[..., nn.Module]]" = Registry(
    "jumok.pretraining_models",
    "model",
    {"replaced_tokens": f"{LAB}.models.replaced_tokens:replaced_token_model"},
)
EMBEDDINGS: "Registry[Callable[..., Tensor]]" = Registry(
    "jumok.initial_embeddings",
    "initial embeddings",
    {"cooccurrence": f"{LAB}.models.cooccurrence:cooccurrence_embedding"},
)

TRANSFORMER = "transformer"
# A model of one's own: built from [model] and the number of outputs (`Task.n_outputs`).
ARCHITECTURES: "Registry[Callable[[ModelConfig, int], nn.Module]]" = Registry(
    "jumok.models", "model.architecture", {TRANSFORMER: "jumok.models:Encoder"}
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
