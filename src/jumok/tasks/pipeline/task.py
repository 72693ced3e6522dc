"""What a task is: one kind of job, from data to answers. Recipes name it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from torch import nn

from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.decoding.config import DecodingConfig
from jumok.tasks.pipeline.outputs import Output
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import ModelConfig
from jumok.training.job import TrainingJob
from jumok.training.reporting.report import Example, Mistake

if TYPE_CHECKING:
    from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
    from jumok.tasks.pipeline.pipeline import Pipeline


@dataclass(frozen=True)
class EvaluationResult:
    """`scores` is the answer of `jumok evaluate`; the rest goes into the report."""

    scores: dict[str, Any]
    confusion: list[list[int]] | None = None
    mistakes: list[Mistake] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)


class Task(Protocol):
    """One kind of job. It holds no state: everything is in the recipe, the model and the run."""

    def columns(self, recipe: Recipe) -> tuple[str, ...]:
        """What a row of the recipe's data holds."""

    def vocabulary_texts(self, recipe: Recipe, train: Table) -> Iterator[str]:
        """All that the training rows say: what a vocabulary is learnt from."""

    def build_model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """The model a recipe describes, freshly initialised."""

    def build_job(
        self,
        recipe: Recipe,
        model: nn.Module,
        vocabularies: "TokenizerPair",
        splits: Splits,
        device: torch.device,
    ) -> TrainingJob[Any]:
        """What a trainer needs."""

    def evaluate(self, loaded: "Pipeline", table: Table, split: str) -> EvaluationResult:
        """The scores of a model on the rows of a table."""

    def predict(self, loaded: "Pipeline", texts: Sequence[str]) -> Sequence[Output]:
        """One answer a text, in order; an empty text is answered too."""


@runtime_checkable
class GenerativeTask(Protocol):
    """A task whose answers are written token by token, as `recipe.decoding` says."""

    def effective_decoding(self, loaded: "Pipeline") -> DecodingConfig:
        """How answers are written: what the recipe says, as far as the model can."""

    def stream(self, loaded: "Pipeline", text: str, on_text: Callable[[str], None]) -> Output:
        """The answer to one text; its parts are given out as soon as they are certain."""
