"""The tasks, and what a recipe may choose for each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["encoder", "decoder", "encoder_decoder"]
TaskName = Literal[
    "classification",
    "regression",
    "tagging",
    "sequence_to_sequence",
    "language_modeling",
    "masked_language_modeling",
]
Metric = Literal[
    "accuracy",
    "macro_f1",
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
class Choices:
    """What a recipe may choose for a task; the first of each is what is chosen for it."""

    kinds: tuple[Kind, ...]  # of model
    metrics: tuple[Metric, ...]  # what the best weights are chosen by
    columns: tuple[str, ...]  # of data, those that it may read


CHOICES: Mapping[TaskName, Choices] = {
    "classification": Choices(
        ("encoder", "encoder_decoder"), ("accuracy", "macro_f1"), ("text", "pair", "label")
    ),
    "regression": Choices(("encoder",), ("pearson", "spearman"), ("text", "pair", "score")),
    "tagging": Choices(("encoder",), ("entity_f1",), ("text", "tags")),
    "sequence_to_sequence": Choices(
        ("encoder_decoder",), ("exact_match", "bleu", "chrf"), ("source", "target")
    ),
    "language_modeling": Choices(("decoder",), ("bits_per_byte", "perplexity"), ("text",)),
    "masked_language_modeling": Choices(("encoder",), ("perplexity",), ("text",)),
}

WRITING: tuple[TaskName, ...] = ("sequence_to_sequence", "language_modeling")
