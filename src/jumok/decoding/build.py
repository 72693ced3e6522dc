"""From settings to processors: what a config asks for, in the order in which it is done."""

from collections.abc import Sequence
from functools import lru_cache

from jumok.decoding.config import DecodingConfig
from jumok.decoding.constraints.automaton import DEAD
from jumok.decoding.constraints.constraint import Constraint, TokenAutomaton, any_text_of, words_of
from jumok.decoding.constraints.regex import compile_regex
from jumok.decoding.constraints.token_bytes import TokenBytes, read_token_bytes
from jumok.decoding.processors import (
    BannedSequences,
    ForcedPrefix,
    ForcedToken,
    IgnoreFirst,
    MinLength,
    MinP,
    NoRepeatNgram,
    Processor,
    RepetitionPenalty,
    StartAfter,
    Temperature,
    TopK,
    TopP,
    TypicalP,
)
from jumok.decoding.stopping import StoppingCriteria, StopStrings
from jumok.decoding.words import all_spellings
from jumok.errors import InputError
from jumok.text.tokenizer import Tokenizer, unk_id


def build_stopping_and_processors(
    config: DecodingConfig,
    end_id: int,
    limits: Sequence[int],
    vocabulary: Tokenizer | None = None,
    constraints: Sequence[Processor] = (),
    *,
    prompts: Sequence[Sequence[int]] = (),
    continues_text: bool = False,
) -> tuple[StoppingCriteria, list[Processor]]:
    """What is in force in a whole request: when each text is over, and what changes its scores.

    `limits` are of each text, `prompts` what they go on from; `continues_text` says that these hold
    words. What the config holds answers to stands behind the `constraints` that are given. A limit
    of a short source (max_ratio) leaves room for what every answer must hold. Raises InputError as
    the functions below do.
    """
    forced = n_forced(constraints)
    least = forced + _least(config, vocabulary, continues_text)
    limits = [max(limit, min(least, config.max_length)) for limit in limits]
    stopping = build_stopping(config, end_id, limits, vocabulary, prompts)
    held = build_constraints(
        config, end_id, limits, vocabulary, continues_text=continues_text, forced=forced
    )
    processors = build_processors(
        config,
        end_id,
        vocabulary,
        [*constraints, *held],
        limits=limits,
        continues_text=continues_text,
    )
    return stopping, processors


def build_processors(
    config: DecodingConfig,
    end_id: int,
    vocabulary: Tokenizer | None = None,
    constraints: Sequence[Processor] = (),
    *,
    limits: Sequence[int] = (),
    continues_text: bool = False,
) -> list[Processor]:
    """First what lowers or forbids, constraints among it, then temperature, then what cuts.

    A token that the constraints force to be the first stands before the prefix, of which nothing
    is forbidden because of what came before it. Raises InputError for words without a vocabulary to
    spell them in, and for a prefix that is forbidden or takes more tokens than may be written: the
    least of the `limits`, where some are given.

    >>> build_processors(DecodingConfig(top_k=5, min_length=2), end_id=3)
    [MinLength(n=2, end_id=3), TopK(k=5)]
    """
    chosen: list[Processor] = []
    if config.repetition_penalty != 1.0:
        chosen.append(RepetitionPenalty(config.repetition_penalty))
    forbidding: list[Processor] = []
    if config.no_repeat_ngram:
        forbidding.append(NoRepeatNgram(config.no_repeat_ngram))
    forbidden = _forbidden(config, vocabulary)
    if forbidden:
        forbidding.append(BannedSequences(forbidden))
    if config.prefix:
        known = _needed(vocabulary, "prefix")
        prefix = _prefix(config.prefix, known, continues_text=continues_text)
        _refuse_forbidden(config.prefix, prefix, forbidden, known)
        forced = n_forced(constraints)
        room = min(limits, default=0)
        at_the_end = any(
            isinstance(c, ForcedToken) and 0 < c.position == room - 1 for c in constraints
        )
        needed = forced + len(prefix) + at_the_end
        if limits and needed > room:
            raise InputError(
                f"decoding.prefix {config.prefix!r} takes {needed} tokens, and "
                f"{min(limits)} may be written; raise decoding.max_length (max_ratio, max_extra)"
            )
        chosen.append(_behind(forced, ForcedPrefix([prefix])))

        def freely(each: Processor) -> Processor:  # the prefix comes to the letter
            return StartAfter(forced + len(prefix), each)

        forbidding = [freely(each) for each in forbidding]
        constraints = [freely(c) if isinstance(c, BannedSequences) else c for c in constraints]
    chosen += forbidding
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
        chosen.append(TypicalP(config.typical_p))
    return chosen


def build_stopping(
    config: DecodingConfig,
    end_id: int,
    limits: Sequence[int],
    vocabulary: Tokenizer | None = None,
    prompts: Sequence[Sequence[int]] = (),
) -> StoppingCriteria:
    """When each text is over. Raises InputError for stop texts without a vocabulary."""
    if not config.stop:
        return StoppingCriteria(end_id, limits)
    return StoppingCriteria(
        end_id, limits, StopStrings(_needed(vocabulary, "stop"), config.stop), prompts
    )


def build_constraints(
    config: DecodingConfig,
    end_id: int,
    limits: Sequence[int],
    vocabulary: Tokenizer | None = None,
    *,
    continues_text: bool = False,
    forced: int = 0,
) -> list[Processor]:
    """What holds every answer to the pattern, the choices or the words allowed, if there are any.

    `limits` are of each text; `continues_text` says that an answer goes on from a prompt. So many
    tokens as are `forced` to come first are no part of the answer's text. Raises InputError where
    nothing that is allowed begins with the prefix.
    """
    name = _holding(config)
    if not name:
        return []
    language, state, prefix = _begun(config, name, _needed(vocabulary, name), continues_text)
    if state == DEAD or not language.can_finish(state):
        raise InputError(
            f"decoding.prefix {config.prefix!r} begins nothing that decoding.{name} allows; leave "
            "one of them out"
        )
    needed = forced + len(prefix) + int(language.min_tokens[state]) + 1
    if prefix and min(limits, default=needed) < needed:
        raise InputError(
            f"decoding.prefix {config.prefix!r} and what decoding.{name} wants behind it take "
            f"{needed} tokens with the end, and {min(limits)} may be written; raise "
            "decoding.max_length (max_ratio, max_extra)"
        )
    rest = [limit - forced for limit in limits]
    strict = name != "allowed"  # behind a word another may follow, or the answer is over
    return [_behind(forced, Constraint(language, end_id=end_id, limits=rest, strict=strict))]


def _holding(config: DecodingConfig) -> str:
    """Which setting says what a whole answer may be, if one does."""
    return next((name for name in ("pattern", "choices", "allowed") if getattr(config, name)), "")


def _begun(
    config: DecodingConfig, name: str, vocabulary: Tokenizer, continues_text: bool
) -> tuple[TokenAutomaton, int, list[int]]:
    """What an answer may be, its state behind the prefix, and the tokens of that."""
    said = getattr(config, name)
    language = _language(name, said, vocabulary, continues_text)  # type: ignore[arg-type]  # every object can be hashed
    prefix = _prefix(config.prefix, vocabulary, continues_text=continues_text)
    return language, language.state_of(prefix), prefix


def _least(config: DecodingConfig, vocabulary: Tokenizer | None, continues_text: bool) -> int:
    """How many tokens hold what every answer must: the prefix, a whole match and the end."""
    name = _holding(config)
    if name:
        known = _needed(vocabulary, name)
        language, state, prefix = _begun(config, name, known, continues_text)
        return len(prefix) + int(language.min_tokens[state]) + 1
    if config.prefix:
        known = _needed(vocabulary, "prefix")
        return len(_prefix(config.prefix, known, continues_text=continues_text))
    return 0


def continues_text(
    config: DecodingConfig, prompts: Sequence[Sequence[int]], vocabulary: Tokenizer | None
) -> bool:
    """Whether the answers to these prompts go on from a text; one of [BOS] alone is none.

    Raises InputError where some do and others do not, and the config holds words: the first word of
    a text is spelled otherwise than one behind it.
    """
    if vocabulary is None or not config.constrains_start:
        return True  # nobody asks
    texts = {bool(text) for text in vocabulary.decode_batch(prompts)}
    if len(texts) > 1:
        raise InputError(
            "prompts with a text and without one came together, and the answers are held to "
            "words; ask for them one after the other"
        )
    return True in texts


def n_forced(constraints: Sequence[Processor]) -> int:
    """How many tokens come before every answer's text, whatever the model says.

    >>> n_forced([Forced(token=7, place=0), Forced(token=3, place=11)])
    1
    """
    return int(any(isinstance(each, ForcedToken) and each.position == 0 for each in constraints))


@lru_cache(maxsize=8)  # a request asks for the same language in every batch
def _language(
    name: str, said: str | tuple[str, ...], vocabulary: Tokenizer, continues_text: bool
) -> TokenAutomaton:
    spelling = _spelling(vocabulary)  # type: ignore[arg-type]  # as above
    if isinstance(said, str):
        machine = compile_regex(said)
    elif name == "choices":
        machine = any_text_of(said)
    else:
        for word in said:
            _refuse_unspelled(word, spelling)
        machine = words_of(said)
    return TokenAutomaton(machine, spelling.after_text() if continues_text else spelling)


@lru_cache(maxsize=4)
def _spelling(vocabulary: Tokenizer) -> TokenBytes:
    return read_token_bytes(vocabulary)


def _behind(n: int, processor: Processor) -> Processor:
    return IgnoreFirst(n, processor) if n else processor


def _forbidden(config: DecodingConfig, vocabulary: Tokenizer | None) -> list[tuple[int, ...]]:
    """Every spelling of every forbidden word."""
    if not config.forbidden:
        return []
    spelling = _spelling(_needed(vocabulary, "forbidden"))  # type: ignore[arg-type]  # as above
    return [way for word in config.forbidden for way in all_spellings(word, spelling)]


def _prefix(text: str, vocabulary: Tokenizer, *, continues_text: bool) -> list[int]:
    """The tokens of a prefix; InputError where they would not write it."""
    ids: list[int] | None = vocabulary.encode(text)
    if ids and continues_text:
        spelling = _spelling(vocabulary)  # type: ignore[arg-type]  # as above
        written = b"".join(spelling.medial[i] for i in ids)
        if _spaces(written) > _spaces(text.encode()):  # pieces begin every text with one
            ids = spelling.shortest_tokens(written[1:])
    if ids is None or unk_id(vocabulary) in ids:
        raise InputError(f"the vocabulary cannot spell the prefix {text!r}; give another")
    return ids


def _spaces(text: bytes) -> int:
    """How many it begins with."""
    return len(text) - len(text.lstrip(b" "))


def _refuse_forbidden(
    text: str, prefix: Sequence[int], words: Sequence[tuple[int, ...]], vocabulary: Tokenizer
) -> None:
    for word in words:
        if any(tuple(prefix[i : i + len(word)]) == word for i in range(len(prefix))):
            raise InputError(
                f"decoding.prefix {text!r} holds {vocabulary.decode(word)!r}, which "
                "decoding.forbidden forbids; leave one of them out"
            )


def _refuse_unspelled(word: str, spelling: TokenBytes) -> None:
    behind = spelling.after_text()
    if not word or not (behind.can_spell(word) or behind.can_spell(f" {word}")):
        raise InputError(f"the vocabulary cannot spell {word!r}; leave it out of decoding.allowed")


def _needed(vocabulary: Tokenizer | None, name: str) -> Tokenizer:
    if vocabulary is None:
        raise InputError(f"decoding.{name} is text and no vocabulary came; give one, or only ids")
    return vocabulary
