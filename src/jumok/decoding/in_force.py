"""From settings to processors: what a config asks for, in the order in which it is done."""

from collections.abc import Sequence
from functools import lru_cache

from jumok.decoding.config import DecodingConfig
from jumok.decoding.constraints import Constraint, Language, word_list
from jumok.decoding.processors import (
    Allowed,
    Forbidden,
    ForcedPrefix,
    MinLength,
    MinP,
    NoRepeatNgram,
    Processor,
    RepetitionPenalty,
    Temperature,
    TopK,
    TopP,
    Typical,
)
from jumok.decoding.regular_expression import regular_expression
from jumok.decoding.spelling import spelling_of
from jumok.decoding.stopping import Stopping, StopTexts
from jumok.decoding.words import spellings
from jumok.errors import InputError
from jumok.text.vocabulary import Vocabulary


def processors_of(
    config: DecodingConfig,
    end_id: int,
    vocabulary: Vocabulary | None = None,
    constraints: Sequence[Processor] = (),
) -> list[Processor]:
    """First what lowers or forbids, constraints among it, then temperature, then what cuts.

    Raises InputError for words without a vocabulary to spell them in.

    >>> processors_of(DecodingConfig(top_k=5, min_length=2), end_id=3)
    [MinLength(n=2, end_id=3), TopK(k=5)]
    """
    chosen: list[Processor] = []
    if config.repetition_penalty != 1.0:
        chosen.append(RepetitionPenalty(config.repetition_penalty))
    if config.no_repeat_ngram:
        chosen.append(NoRepeatNgram(config.no_repeat_ngram))
    chosen += _words(config, end_id, vocabulary)
    if config.min_length:
        chosen.append(MinLength(config.min_length, end_id))
    chosen += constraints
    if config.temperature != 1.0:
        chosen.append(Temperature(config.temperature))
    if config.top_k:
        chosen.append(TopK(config.top_k))
    if config.top_p < 1.0:
        chosen.append(TopP(config.top_p))
    if config.min_p:
        chosen.append(MinP(config.min_p))
    if config.typical_p < 1.0:
        chosen.append(Typical(config.typical_p))
    return chosen


def stopping_of(
    config: DecodingConfig,
    end_id: int,
    limits: Sequence[int],
    vocabulary: Vocabulary | None = None,
) -> Stopping:
    """When each text is over. Raises InputError for stop texts without a vocabulary."""
    if not config.stop:
        return Stopping(end_id, limits)
    return Stopping(end_id, limits, StopTexts(_needed(vocabulary, "stop"), config.stop))


def constraints_of(
    config: DecodingConfig,
    end_id: int,
    limits: Sequence[int],
    vocabulary: Vocabulary | None = None,
    *,
    behind_a_text: bool = False,
) -> list[Processor]:
    """What holds every answer to the pattern or the choices; none of either: nothing.

    `limits` are of each text; `behind_a_text` says that an answer goes on from a prompt.
    """
    if not config.pattern and not config.choices:
        return []
    name = "pattern" if config.pattern else "choices"
    known = _needed(vocabulary, name)
    language = _language(
        config.pattern,
        config.choices,
        known,  # type: ignore[arg-type]  # every object can be hashed
        behind_a_text,
    )
    return [Constraint(language, end_id=end_id, limits=limits)]


@lru_cache(maxsize=8)  # a request asks for the same language in every batch
def _language(
    pattern: str, choices: tuple[str, ...], vocabulary: Vocabulary, behind_a_text: bool
) -> Language:
    machine = regular_expression(pattern) if pattern else word_list(choices)
    spelling = spelling_of(vocabulary)
    return Language(machine, spelling.behind_a_text() if behind_a_text else spelling)


def _words(config: DecodingConfig, end_id: int, vocabulary: Vocabulary | None) -> list[Processor]:
    chosen: list[Processor] = []
    if config.forbidden:
        spelling = spelling_of(_needed(vocabulary, "forbidden"))
        words = [way for word in config.forbidden for way in spellings(word, spelling)]
        chosen.append(Forbidden(words))
    if config.allowed:
        spelling = spelling_of(_needed(vocabulary, "allowed"))
        ways = [way for word in config.allowed for way in spellings(word, spelling)]
        chosen.append(Allowed({end_id}.union(*ways)))
    if config.prefix:
        chosen.append(ForcedPrefix([_prefix(config.prefix, _needed(vocabulary, "prefix"))]))
    return chosen


def _prefix(text: str, vocabulary: Vocabulary) -> list[int]:
    """The tokens of a prefix; InputError where they would not write it."""
    ids = vocabulary.encode(text)
    if vocabulary.unk_id in ids:
        raise InputError(f"the vocabulary cannot spell the prefix {text!r}; give another")
    return ids


def _needed(vocabulary: Vocabulary | None, name: str) -> Vocabulary:
    if vocabulary is None:
        raise InputError(f"decoding.{name} is text and no vocabulary came; give one, or only ids")
    return vocabulary
