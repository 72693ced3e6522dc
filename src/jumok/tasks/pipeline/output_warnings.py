"""What an output does not show: text that the model could not read, and repetitions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from jumok.models import CharacterClassifier, LanguageModel
from jumok.tasks.pipeline.outputs import OutputT, OutputWarning
from jumok.tasks.pipeline.text_warnings import EMPTY_TEXT, row_warnings, warned
from jumok.tasks.pipeline.text_warnings import unread_tokens as tokens_beyond

if TYPE_CHECKING:
    from jumok.tasks.pipeline.pipeline import Pipeline


NONE_COUNTED: Mapping[str, int] = MappingProxyType({})


def with_warnings(
    pipeline: "Pipeline", outputs: Sequence[OutputT], unread: Mapping[str, int] = NONE_COUNTED
) -> list[OutputT]:
    """The outputs with the warnings of their texts; others are returned as they are.

    `unread` are the unread tokens of texts for which they are known.

    >>> import jumok
    >>> model = jumok.load("note", device="cpu")
    >>> [each.code for each in model("뷁은 추워요.").warnings]
    ['unknown_characters']
    """
    texts = [output.text for output in outputs]
    found = warned(outputs, text_warnings(pipeline, texts, unread))
    if pipeline.task.answer != "masks":
        return found
    from jumok.tasks.pipeline.fill_mask import split_at_masks  # only for masked language models

    warning = OutputWarning("no_mask", "the text has no [MASK], so nothing is predicted")
    for i, output in enumerate(found):
        if len(split_at_masks(output.text, pipeline.vocabulary)) < 2:
            changes: Any = {"warnings": (*output.warnings, warning)}
            found[i] = replace(output, **changes)
    return found


def text_warnings(
    pipeline: "Pipeline", texts: Sequence[str], unread: Mapping[str, int] = NONE_COUNTED
) -> list[list[OutputWarning]]:
    """What a pipeline does not read of each text."""
    tokenizer = pipeline.vocabulary_or_none
    if tokenizer is None or isinstance(pipeline.model, CharacterClassifier):
        return [[] if text.strip() else [EMPTY_TEXT] for text in texts]
    paired = pipeline.recipe.paired
    rows = [
        text.split("\t") if "\t" in text and (paired or pipeline.is_pair(text)) else [text]
        for text in texts
    ]
    others = [row for text, row in zip(texts, rows, strict=True) if text not in unread]
    counted = iter(unread_tokens(pipeline, others))
    counts = [unread[text] if text in unread else next(counted) for text in texts]
    return row_warnings(rows, tokenizer, counts)


def unread_tokens(pipeline: "Pipeline", rows: Sequence[Sequence[str]]) -> list[int]:
    """The number of tokens of each text, or of each pair, beyond the length of the model."""
    if isinstance(pipeline.model, LanguageModel):  # its window slides
        return [0] * len(rows)
    recipe, add = pipeline.recipe, pipeline.task.add_special_tokens
    return tokens_beyond(rows, pipeline.vocabulary, recipe.model.max_length, recipe.task, add)
