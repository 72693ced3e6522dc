"""The tasks there are, by the name a recipe gives."""

from jumok.tasks.classification import Classification
from jumok.tasks.language_modeling import LanguageModeling
from jumok.tasks.masked_language_modeling import MaskedLanguageModeling
from jumok.tasks.recipe import Recipe
from jumok.tasks.regression import Regression
from jumok.tasks.sequence_to_sequence import SequenceToSequence
from jumok.tasks.tagging import TokenTagging
from jumok.tasks.task import Task

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
