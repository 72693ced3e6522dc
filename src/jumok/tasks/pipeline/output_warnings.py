"""What an output does not show: text that the model could not read, and repetitions."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from jumok.models import CharacterClassifier, LanguageModel
from jumok.tasks.inputs.special_tokens import length_limit
from jumok.tasks.pipeline.outputs import GeneratedText, Output, OutputWarning
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer, unk_id
from jumok.unicode_forms import normalize

if TYPE_CHECKING:
    from jumok.tasks.pipeline.pipeline import Pipeline

SPECIAL_TOKENS = 16  # more than any template adds, and than a tokenizer adds before a text
EMPTY_TEXT = OutputWarning("empty_text", "the text is empty")

_SPELLED: "WeakKeyDictionary[Tokenizer, dict[str, bool]]" = WeakKeyDictionary()


def with_warnings(pipeline: "Pipeline", outputs: Sequence[Output]) -> list[Output]:
    """The outputs with the warnings of their texts; others are returned as they are.

    >>> import jumok
    >>> model = jumok.load("note", device="cpu")
    >>> [each.code for each in model("뷁은 추워요.").warnings]
    ['unknown_characters']
    """
    return [_with_warnings(pipeline, output) for output in outputs]


def _with_warnings(pipeline: "Pipeline", output: Output) -> Output:
    found = list(text_warnings(pipeline, output.text))
    if isinstance(output, GeneratedText) and output.loop is not None:
        found.append(OutputWarning("repetition", f"the output repeats: {output.loop}"))
    changes: Any = {"warnings": tuple(found)}
    return replace(output, **changes) if found else output


def text_warnings(pipeline: "Pipeline", text: str) -> list[OutputWarning]:
    """What a pipeline does not read of a text."""
    tokenizer = pipeline.vocabulary_or_none
    if not text.strip():
        return [EMPTY_TEXT]
    if tokenizer is None or isinstance(pipeline.model, CharacterClassifier):
        return []
    found = []
    paired = pipeline.recipe.paired or pipeline.is_pair(text)
    parts = text.split("\t") if paired else [text]
    if n := sum(unknown_characters(part, tokenizer) for part in parts):
        message = f"{n:,} character{'s are' if n > 1 else ' is'} not in the vocabulary"
        found.append(OutputWarning("unknown_characters", message))
    if n := unread_tokens(pipeline, parts):
        found.append(OutputWarning("truncated", f"{n:,} tokens of the text were not read"))
    return found


def unknown_characters(text: str, tokenizer: Tokenizer) -> int:
    """The number of characters of a text that the tokenizer reads as [UNK].

    Each character is tokenized once and remembered. A text with an unknown one is tokenized: a
    vocabulary may have a character inside words only.
    """
    unknown = unk_id(tokenizer)
    if unknown < 0:
        return 0
    text = normalize("NFC", text)
    spelled = _SPELLED.setdefault(tokenizer, {})
    characters = set(text)
    for character in characters - spelled.keys():
        spelled[character] = character.isspace() or unknown not in tokenizer.encode(character)
    missing = {character for character in characters if not spelled[character]}
    if not missing or unknown not in tokenizer.encode(text):
        return 0
    return sum(character in missing for character in text)


def unread_tokens(pipeline: "Pipeline", parts: Sequence[str]) -> int:
    """The number of tokens of a text, or of a pair, beyond the length of the model."""
    tokenizer = pipeline.vocabulary
    limit = length_limit(tokenizer, pipeline.recipe.model.max_length)
    if isinstance(pipeline.model, LanguageModel):  # its window slides
        return 0
    if sum(len(part.encode()) for part in parts) + SPECIAL_TOKENS <= limit:
        return 0  # each token is a byte at least
    empty = Ragged.from_lists([[]])
    pair = empty if len(parts) > 1 else None
    special = pipeline.task.add_special_tokens(tokenizer, empty, pair, limit)
    n_tokens = sum(len(tokenizer.encode(part)) for part in parts)
    return max(n_tokens + int(special.lengths[0]) - limit, 0)
