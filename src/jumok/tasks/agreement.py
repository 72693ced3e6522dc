"""Settings of a recipe that do not go together, each refused in a sentence before any work."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from jumok.errors import InputError
from jumok.tasks.recipe.task_spec import GENERATIVE_TASKS, TASK_SPECS, TaskName

if TYPE_CHECKING:
    from jumok.tasks.recipe.recipe import Recipe

# Tables, and keys of [augmentation], that mean nothing to some tasks: who reads them, and what to
# say to the others.
READ_BY: Mapping[str, tuple[tuple[TaskName, ...], str]] = {
    "decoding": (GENERATIVE_TASKS, "which writes nothing"),
    "windows": (("language_modeling",), "which reads no windows"),
    "masking": (("masked_language_modeling",), "which guesses nothing hidden"),
    "regression": (("regression",), "which learns no scores"),
}
AUGMENTED: Mapping[str, tuple[TaskName, ...]] = {
    "subword_sampling": (
        "classification",
        "regression",
        "sequence_to_sequence",
        "masked_language_modeling",
    ),
    "token_dropout": ("classification", "regression", "tagging"),
    "rdrop_alpha": ("classification", "regression", "tagging", "sequence_to_sequence"),
}


def refuse_strangers(recipe: "Recipe") -> None:
    """Raises InputError for a metric or a model that is of another task."""
    choices = TASK_SPECS[recipe.task]
    if recipe.metric is not None and recipe.metric not in choices.metrics:
        raise InputError(
            f"metric {recipe.metric} is not one of {recipe.task}; "
            f"choose from {', '.join(choices.metrics)}"
        )
    if recipe.model.kind not in choices.kinds:
        raise InputError(
            f'model.kind "{recipe.model.kind}" does not fit the task {recipe.task}; '
            f'set model.kind = "{choices.kinds[0]}"'
        )


def refuse_unread(recipe: "Recipe") -> None:
    """Raises InputError for settings that the task would not look at.

    A model that begins from another run (`model.init`) has its measures, also those it has no use
    for: the encoder of T5 that learns to classify.
    """
    for table, (readers, reason) in READ_BY.items():
        given = getattr(recipe, table)
        if given != type(given)() and recipe.task not in readers:
            raise InputError(f"[{table}] came with the task {recipe.task}, {reason}; leave it out")
    read = TASK_SPECS[recipe.task].columns
    for column in ("text", "pair", "label", "score", "tags", "source", "target"):
        if getattr(recipe.data, column) and column not in read:
            raise InputError(
                f"data.{column} came with the task {recipe.task}, which reads "
                f"{' and '.join(read)}; leave it out"
            )
    if recipe.task == "regression" and recipe.training.label_smoothing:
        raise InputError(
            f"training.label_smoothing {recipe.training.label_smoothing} came with the task "
            "regression, which has no labels; set it to 0"
        )
    if recipe.task == "tagging" and recipe.augmentation.subword_sampling:
        raise InputError(
            "augmentation.subword_sampling cuts texts anew, and the tags of a text lie on its "
            "best cut; set it to 0"
        )
    model = recipe.model
    if model.scale_output and recipe.task != "sequence_to_sequence" and not model.init:
        raise InputError(
            f"model.scale_output came with the task {recipe.task}, whose model has no output that "
            "is scaled; leave it out"
        )
    if model.n_decoder_layers is not None and model.kind == "encoder" and not model.init:
        raise InputError(
            f'model.n_decoder_layers {model.n_decoder_layers} came with model.kind "encoder", '
            "which has no decoder; leave it out"
        )
    for key, users in AUGMENTED.items():
        value = getattr(recipe.augmentation, key)
        if value and recipe.task not in users:
            raise InputError(
                f"augmentation.{key} {value} came with the task {recipe.task}, whose texts are "
                f"not changed so; set it to 0, or choose from {', '.join(users)}"
            )


def refuse_contradictions(recipe: "Recipe") -> None:
    """Raises InputError for two settings of which one makes the other impossible."""
    if not recipe.vocabulary.joint and recipe.task != "sequence_to_sequence":
        raise InputError(
            f"vocabulary.joint = false came with the task {recipe.task}, which has one kind of "
            "text; leave it out"
        )
    if recipe.vocabulary.file and recipe.model.init:
        raise InputError(
            "vocabulary.file and model.init both name a vocabulary; leave out vocabulary.file"
        )
    if recipe.data.pieces and recipe.task != "classification":
        raise InputError(
            f"data.pieces came with the task {recipe.task}; only texts to classify "
            "may be cut already"
        )
    one_segment = recipe.model.n_segments == 1 and not recipe.model.init  # as RoBERTa has it
    if recipe.paired and (recipe.data.pieces or one_segment):
        raise InputError(
            f"pairs came with data.pieces {str(recipe.data.pieces).lower()} and model.n_segments "
            f"{recipe.model.n_segments}; give pairs as text, and 2 segments, or 0 for none"
        )
    beside = recipe.paired and recipe.model.n_segments == 2 and recipe.model.kind == "encoder"
    if recipe.model.pooling == "compare" and not beside:
        raise InputError(
            'model.pooling "compare" puts two texts beside each other; give pairs '
            '(data.pair), model.n_segments = 2 and model.kind = "encoder", or choose another'
        )
    if recipe.task == "tagging" and recipe.vocabulary.byte_fallback:
        raise InputError(
            "vocabulary.byte_fallback spells rare characters in bytes, and a byte has no tag "
            "of its own; leave it out"
        )
    if recipe.data.pieces and recipe.augmentation.subword_sampling:
        raise InputError(
            "data.pieces are cut already, and augmentation.subword_sampling cuts texts anew; "
            "set one of them to 0 or false"
        )
