"""The eight tasks, and the models, metrics and data columns a recipe may choose for each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

ModelKind = Literal["encoder", "decoder", "encoder_decoder"]
TaskName = Literal[
    "classification",
    "multi_label_classification",
    "regression",
    "similarity",
    "tagging",
    "sequence_to_sequence",
    "language_modeling",
    "masked_language_modeling",
]
Metric = Literal[
    "accuracy",
    "macro_f1",
    "micro_f1",
    "pearson",
    "spearman",
    "entity_f1",
    "exact_match",
    "bleu",
    "chrf",
    "perplexity",
    "bits_per_byte",
]


@dataclass(frozen=True)
class TaskSpec:
    """The options of one task; the first model kind and metric are the defaults."""

    kinds: tuple[ModelKind, ...]
    metrics: tuple[Metric, ...]  # that may select the best checkpoint
    columns: tuple[str, ...]  # of the data, those that the task may read


TASK_SPECS: Mapping[TaskName, TaskSpec] = {
    "classification": TaskSpec(
        ("encoder", "encoder_decoder"), ("accuracy", "macro_f1"), ("text", "pair", "label")
    ),
    "multi_label_classification": TaskSpec(
        ("encoder", "encoder_decoder"),
        ("micro_f1", "macro_f1", "exact_match"),
        ("text", "pair", "labels"),
    ),
    "regression": TaskSpec(("encoder",), ("pearson", "spearman"), ("text", "pair", "score")),
    "similarity": TaskSpec(
        ("encoder",), ("spearman", "pearson", "accuracy"), ("text", "pair", "score", "label")
    ),
    "tagging": TaskSpec(("encoder",), ("entity_f1",), ("text", "tags")),
    "sequence_to_sequence": TaskSpec(
        ("encoder_decoder",), ("exact_match", "bleu", "chrf"), ("source", "target")
    ),
    "language_modeling": TaskSpec(("decoder",), ("bits_per_byte", "perplexity"), ("text",)),
    "masked_language_modeling": TaskSpec(("encoder",), ("perplexity",), ("text",)),
}

GENERATIVE_TASKS: tuple[TaskName, ...] = ("sequence_to_sequence", "language_modeling")
