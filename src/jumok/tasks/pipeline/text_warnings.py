"""What a model does not read of a text: unknown characters, and the end."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from jumok.tasks.inputs.special_tokens import build_inputs, length_limit
from jumok.tasks.pipeline.outputs import GeneratedText, OutputT, OutputWarning
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer, unk_id
from jumok.unicode_forms import normalize

SPECIAL_TOKENS = 16  # more than any template adds, and than a tokenizer adds before a text
EMPTY_TEXT = OutputWarning("empty_text", "the text is empty")

# Whether a tokenizer reads a character alone as [UNK].
_UNKNOWN: "WeakKeyDictionary[Tokenizer, dict[str, bool]]" = WeakKeyDictionary()
_N_SPECIAL: "WeakKeyDictionary[Tokenizer, dict[tuple[str, bool, int], int]]" = WeakKeyDictionary()

AddSpecialTokens = Callable[[Tokenizer, Ragged, Ragged | None, int], Ragged]


def warned(outputs: Sequence[OutputT], warnings: Sequence[list[OutputWarning]]) -> list[OutputT]:
    """The outputs with the warnings of their texts and of repetitions; others as they are."""
    return [_warned(output, found) for output, found in zip(outputs, warnings, strict=True)]


def _warned(output: OutputT, found: list[OutputWarning]) -> OutputT:
    if isinstance(output, GeneratedText) and output.loop is not None:
        found = [*found, OutputWarning("repetition", f"the output repeats: {output.loop}")]
    changes: Any = {"warnings": tuple(found)}
    return replace(output, **changes) if found else output


def row_warnings(
    rows: Sequence[Sequence[str]], tokenizer: Tokenizer, unread: Sequence[int]
) -> list[list[OutputWarning]]:
    """The warnings for each text, or the two texts of a pair, with so many unread tokens.

    Texts are tokenized only where it decides.
    """
    unknown = unknown_characters([part for row in rows for part in row], tokenizer)
    found: list[list[OutputWarning]] = []
    first = 0
    for row, n_unread in zip(rows, unread, strict=True):
        n_unknown = sum(unknown[first : first + len(row)])
        first += len(row)
        empty = not any(part.strip() for part in row)
        found.append([EMPTY_TEXT] if empty else list(_text_warnings(n_unknown, n_unread)))
    return found


def _text_warnings(n_unknown: int, n_unread: int) -> Iterator[OutputWarning]:
    if n_unknown:
        are = "characters are" if n_unknown > 1 else "character is"
        yield OutputWarning("unknown_characters", f"{n_unknown:,} {are} not in the vocabulary")
    if n_unread:
        were = "tokens of the text were" if n_unread > 1 else "token of the text was"
        message = f"{n_unread:,} {were} not read"
        yield OutputWarning("truncated", message, n_unread)


def unknown_characters(texts: Sequence[str], tokenizer: Tokenizer) -> list[int]:
    """The number of characters of each text that the tokenizer reads as [UNK].

    Each character is tokenized once and remembered. Texts with an unknown one are tokenized: a
    vocabulary may have a character inside words only.
    """
    unknown = unk_id(tokenizer)
    if unknown < 0:
        return [0] * len(texts)
    composed = [normalize("NFC", text) for text in texts]
    is_unknown = _UNKNOWN.setdefault(tokenizer, {})
    for character in set().union(*composed).difference(is_unknown):
        alone = not character.isspace() and unknown in tokenizer.encode(character)
        is_unknown[character] = alone
    counts = [sum(map(is_unknown.__getitem__, text)) for text in composed]
    suspected = [index for index, count in enumerate(counts) if count]
    encoded = tokenizer.encode_batch([composed[index] for index in suspected])
    for index, ids in zip(suspected, encoded, strict=True):
        if unknown not in ids:
            counts[index] = 0
    return counts


def unread_tokens(
    rows: Sequence[Sequence[str]],
    tokenizer: Tokenizer,
    max_length: int,
    task: str,
    add_special_tokens: AddSpecialTokens = build_inputs,
) -> list[int]:
    """The number of tokens of each text, or of each pair, beyond the length of a model."""
    counts = [0] * len(rows)
    limit = length_limit(tokenizer, max_length)
    long = [  # each token is a byte at least
        index
        for index, row in enumerate(rows)
        if sum(len(part.encode()) for part in row) + SPECIAL_TOKENS > limit
    ]
    encoded = iter(tokenizer.encode_batch([part for index in long for part in rows[index]]))
    known = _N_SPECIAL.setdefault(tokenizer, {})
    for index in long:
        n_parts = len(rows[index])
        n_tokens = sum(len(next(encoded)) for _ in range(n_parts))
        key = (task, n_parts > 1, limit)
        if key not in known:  # the same for all texts, and it takes longer than one
            empty = Ragged.from_lists([[]])
            row = add_special_tokens(tokenizer, empty, empty if n_parts > 1 else None, limit)
            known[key] = int(row.lengths[0])
        counts[index] = max(n_tokens + known[key] - limit, 0)
    return counts
