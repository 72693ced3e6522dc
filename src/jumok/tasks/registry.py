"""The tasks there are, by the name a recipe gives."""

from jumok.tasks.causal_lm import LanguageModeling
from jumok.tasks.classification import Classification
from jumok.tasks.masked_lm import MaskedLanguageModeling
from jumok.tasks.pipeline.task import Task
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.regression import Regression
from jumok.tasks.seq2seq import SequenceToSequence
from jumok.tasks.token_classification import TokenTagging

TASKS: dict[str, Task] = {
    "classification": Classification(),
    "regression": Regression(),
    "tagging": TokenTagging(),
    "sequence_to_sequence": SequenceToSequence(),
    "language_modeling": LanguageModeling(),
    "masked_language_modeling": MaskedLanguageModeling(),
}


def task_of(recipe: Recipe) -> Task:
    """The task a recipe names."""
    return TASKS[recipe.task]
