"""What an output does not show: text that the model could not read, and repetitions."""

from collections.abc import Iterator, Sequence
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

# The characters that a tokenizer reads alone, and those that it does not.
_READABLE: "WeakKeyDictionary[Tokenizer, tuple[set[str], set[str]]]" = WeakKeyDictionary()
_N_SPECIAL: "WeakKeyDictionary[Tokenizer, dict[tuple[str, bool, int], int]]" = WeakKeyDictionary()


def with_warnings(pipeline: "Pipeline", outputs: Sequence[Output]) -> list[Output]:
    """The outputs with the warnings of their texts; others are returned as they are.

    >>> import jumok
    >>> model = jumok.load("note", device="cpu")
    >>> [each.code for each in model("뷁은 추워요.").warnings]
    ['unknown_characters']
    """
    texts = [output.text for output in outputs]
    warned = zip(outputs, text_warnings(pipeline, texts), strict=True)
    return [_with_warnings(output, found) for output, found in warned]


def _with_warnings(output: Output, found: list[OutputWarning]) -> Output:
    if isinstance(output, GeneratedText) and output.loop is not None:
        found = [*found, OutputWarning("repetition", f"the output repeats: {output.loop}")]
    changes: Any = {"warnings": tuple(found)}
    return replace(output, **changes) if found else output


def text_warnings(pipeline: "Pipeline", texts: Sequence[str]) -> list[list[OutputWarning]]:
    """What a pipeline does not read of each text. Texts are tokenized only where it decides."""
    tokenizer = pipeline.vocabulary_or_none
    if tokenizer is None or isinstance(pipeline.model, CharacterClassifier):
        return [[] if text.strip() else [EMPTY_TEXT] for text in texts]
    paired = pipeline.recipe.paired
    rows = [text.split("\t") if paired or pipeline.is_pair(text) else [text] for text in texts]
    unread = unread_tokens(pipeline, rows)
    unknown = unknown_characters([part for row in rows for part in row], tokenizer)
    found: list[list[OutputWarning]] = []
    first = 0
    for text, row, n_unread in zip(texts, rows, unread, strict=True):
        n_unknown = sum(unknown[first : first + len(row)])
        first += len(row)
        found.append(list(_text_warnings(n_unknown, n_unread)) if text.strip() else [EMPTY_TEXT])
    return found


def _text_warnings(n_unknown: int, n_unread: int) -> Iterator[OutputWarning]:
    if n_unknown:
        are = "characters are" if n_unknown > 1 else "character is"
        yield OutputWarning("unknown_characters", f"{n_unknown:,} {are} not in the vocabulary")
    if n_unread:
        yield OutputWarning("truncated", f"{n_unread:,} tokens of the text were not read")


def unknown_characters(texts: Sequence[str], tokenizer: Tokenizer) -> list[int]:
    """The number of characters of each text that the tokenizer reads as [UNK].

    Each character is tokenized once and remembered. Texts with an unknown one are tokenized: a
    vocabulary may have a character inside words only.
    """
    counts = [0] * len(texts)
    unknown = unk_id(tokenizer)
    if unknown < 0:
        return counts
    readable, others = _READABLE.setdefault(tokenizer, (set(), set()))
    suspected: dict[int, str] = {}
    for index, text in enumerate(texts):
        composed = normalize("NFC", text)
        unusual = set(composed) - readable
        for character in unusual - others:
            read = character.isspace() or unknown not in tokenizer.encode(character)
            (readable if read else others).add(character)
        if unusual & others:
            suspected[index] = composed
    encoded = tokenizer.encode_batch(list(suspected.values()))
    for (index, composed), ids in zip(suspected.items(), encoded, strict=True):
        if unknown in ids:
            counts[index] = sum(character in others for character in composed)
    return counts


def unread_tokens(pipeline: "Pipeline", rows: Sequence[Sequence[str]]) -> list[int]:
    """The number of tokens of each text, or of each pair, beyond the length of the model."""
    counts = [0] * len(rows)
    if isinstance(pipeline.model, LanguageModel):  # its window slides
        return counts
    tokenizer = pipeline.vocabulary
    limit = length_limit(tokenizer, pipeline.recipe.model.max_length)
    long = [  # each token is a byte at least
        index
        for index, row in enumerate(rows)
        if sum(len(part.encode()) for part in row) + SPECIAL_TOKENS > limit
    ]
    encoded = iter(tokenizer.encode_batch([part for index in long for part in rows[index]]))
    for index in long:
        n_parts = len(rows[index])
        n_tokens = sum(len(next(encoded)) for _ in range(n_parts))
        n_special = _n_special(pipeline, tokenizer, n_parts > 1, limit)
        counts[index] = max(n_tokens + n_special - limit, 0)
    return counts


def _n_special(pipeline: "Pipeline", tokenizer: Tokenizer, paired: bool, limit: int) -> int:
    """The special tokens of a row, which is the same for all texts and takes longer than one."""
    known = _N_SPECIAL.setdefault(tokenizer, {})
    key = (pipeline.recipe.task, paired, limit)
    if key not in known:
        empty = Ragged.from_lists([[]])
        row = pipeline.task.add_special_tokens(tokenizer, empty, empty if paired else None, limit)
        known[key] = int(row.lengths[0])
    return known[key]
