"""Build the stopping criteria and the logits processors of a DecodingConfig."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from jumok.decoding.config import DecodingConfig
from jumok.decoding.constraints.automaton import DEAD
from jumok.decoding.constraints.constraint import Constraint, TokenAutomaton, any_text_of, words_of
from jumok.decoding.constraints.regex import compile_regex
from jumok.decoding.constraints.token_bytes import TokenBytes, all_spellings, read_token_bytes
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
from jumok.errors import DecodingError
from jumok.text.tokenizer import Tokenizer, unk_id


def build_stopping_and_processors(
    config: DecodingConfig,
    end_id: int,
    limits: Sequence[int],
    tokenizer: Tokenizer | None = None,
    constraints: Sequence[Processor] = (),
    *,
    prompts: Sequence[Sequence[int]] = (),
    continues_text: bool = False,
    more_end_ids: tuple[int, ...] = (),
) -> tuple[StoppingCriteria, list[Processor]]:
    """The stopping criteria and the processors of a whole request.

    `limits` and `prompts` are of each text; `continues_text` is True if the prompts decode to text.
    The constraints of the config come after the given `constraints`. A limit that follows from a
    short source (max_ratio) is raised to what every output needs. Raises InputError as the
    functions below do.
    """
    forced = n_forced(constraints)
    minimum = forced + _min_tokens(config, tokenizer, continues_text)
    limits = [max(limit, min(minimum, config.max_length)) for limit in limits]
    stopping = build_stopping(config, end_id, limits, tokenizer, prompts)
    stopping = replace(stopping, more_end_ids=more_end_ids)
    own = build_constraints(
        config, end_id, limits, tokenizer, continues_text=continues_text, forced=forced
    )
    processors = build_processors(
        config,
        end_id,
        tokenizer,
        [*constraints, *own],
        limits=limits,
        continues_text=continues_text,
    )
    if config.min_length:
        processors += [MinLength(config.min_length, each) for each in more_end_ids]
    return stopping, processors


def build_processors(
    config: DecodingConfig,
    end_id: int,
    tokenizer: Tokenizer | None = None,
    constraints: Sequence[Processor] = (),
    *,
    limits: Sequence[int] = (),
    continues_text: bool = False,
) -> list[Processor]:
    """Processors that lower or ban scores, then the temperature, then those that truncate.

    A token that the constraints force to be the first comes before the prefix. Nothing in the
    prefix is banned because of the tokens before it. Raises InputError for text settings without a
    tokenizer, and for a prefix that is forbidden or takes more tokens than the lowest of `limits`.

    >>> build_processors(DecodingConfig(top_k=5, min_length=2), end_id=3)
    [MinLength(n=2, end_id=3), TopK(k=5)]
    """
    processors: list[Processor] = []
    if config.repetition_penalty != 1.0:
        processors.append(RepetitionPenalty(config.repetition_penalty))
    bans: list[Processor] = []
    if config.no_repeat_ngram:
        bans.append(NoRepeatNgram(config.no_repeat_ngram))
    forbidden = _forbidden(config, tokenizer)
    if forbidden:
        bans.append(BannedSequences(forbidden))
    if config.prefix:
        known = _require_tokenizer(tokenizer, "prefix")
        prefix = _prefix(config.prefix, known, continues_text=continues_text)
        _check_not_forbidden(config.prefix, prefix, forbidden, known)
        forced = n_forced(constraints)
        limit = min(limits, default=0)
        forced_end = any(
            isinstance(c, ForcedToken) and 0 < c.position == limit - 1 for c in constraints
        )
        needed = forced + len(prefix) + forced_end
        if limits and needed > limit:
            raise DecodingError(
                "decoding.prefix_too_long",
                "decoding.prefix {prefix!r} must take at most {limit} tokens, got {needed}; try "
                "a larger decoding.max_length (max_ratio, max_extra)",
                prefix=config.prefix,
                limit=limit,
                needed=needed,
            )
        processors.append(_after_forced(forced, ForcedPrefix([prefix])))

        def after_prefix(each: Processor) -> Processor:
            return StartAfter(forced + len(prefix), each)

        bans = [after_prefix(each) for each in bans]
        constraints = [
            after_prefix(c) if isinstance(c, BannedSequences) else c for c in constraints
        ]
    processors += bans
    if config.min_length:
        processors.append(MinLength(config.min_length, end_id))
    processors += constraints
    if config.temperature != 1.0:
        processors.append(Temperature(config.temperature))
    if config.top_k:
        processors.append(TopK(config.top_k))
    if config.top_p < 1.0:
        processors.append(TopP(config.top_p))
    if config.min_p:
        processors.append(MinP(config.min_p))
    if config.typical_p < 1.0:
        processors.append(TypicalP(config.typical_p))
    return processors


def build_stopping(
    config: DecodingConfig,
    end_id: int,
    limits: Sequence[int],
    tokenizer: Tokenizer | None = None,
    prompts: Sequence[Sequence[int]] = (),
) -> StoppingCriteria:
    """The stopping criteria. Raises InputError for stop strings without a tokenizer."""
    if not config.stop:
        return StoppingCriteria(end_id, limits)
    strings = StopStrings(_require_tokenizer(tokenizer, "stop"), config.stop)
    return StoppingCriteria(end_id, limits, strings, prompts)


def build_constraints(
    config: DecodingConfig,
    end_id: int,
    limits: Sequence[int],
    tokenizer: Tokenizer | None = None,
    *,
    continues_text: bool = False,
    forced: int = 0,
) -> list[Processor]:
    """The constraint of the pattern, the choices or the allowed words, if one of them is set.

    `limits` are of each text; `continues_text` is True if the prompts decode to text. The first
    `forced` tokens are not part of the output's text. Raises InputError where no allowed text
    starts with the prefix.
    """
    name = _constraint_name(config)
    if not name:
        return []
    known = _require_tokenizer(tokenizer, name)
    automaton, state, prefix = _constraint_state(config, name, known, continues_text)
    if state == DEAD or not automaton.can_finish(state):
        raise DecodingError(
            "decoding.prefix_not_allowed",
            "decoding.prefix {prefix!r} must be the start of a text that decoding.{name} allows; "
            "leave one of them out",
            prefix=config.prefix,
            name=name,
        )
    needed = forced + len(prefix) + int(automaton.min_tokens[state]) + 1
    if prefix and min(limits, default=needed) < needed:
        raise DecodingError(
            "decoding.limit_too_small",
            "the limit must be at least {needed} tokens for decoding.prefix {prefix!r}, the rest "
            "of decoding.{name} and the end token, got {limits}; try a larger "
            "decoding.max_length (max_ratio, max_extra)",
            needed=needed,
            prefix=config.prefix,
            name=name,
            limits=min(limits),
        )
    rest = [limit - forced for limit in limits]
    strict = name != "allowed"  # an output may end after any allowed word
    constraint = Constraint(automaton, end_id=end_id, limits=rest, strict=strict)
    return [_after_forced(forced, constraint)]


def _constraint_name(config: DecodingConfig) -> str:
    """The setting that constrains the whole output, "" if there is none."""
    return next((name for name in ("pattern", "choices", "allowed") if getattr(config, name)), "")


def _constraint_state(
    config: DecodingConfig, name: str, tokenizer: Tokenizer, continues_text: bool
) -> tuple[TokenAutomaton, int, list[int]]:
    """The automaton of the constraint, its state after the prefix, and the prefix tokens."""
    value = getattr(config, name)
    automaton = _automaton(name, value, tokenizer, continues_text)  # type: ignore[arg-type]  # every object can be hashed
    prefix = _prefix(config.prefix, tokenizer, continues_text=continues_text)
    return automaton, automaton.state_of(prefix), prefix


def _min_tokens(config: DecodingConfig, tokenizer: Tokenizer | None, continues_text: bool) -> int:
    """The tokens that every output has at least: the prefix, a whole match and the end."""
    name = _constraint_name(config)
    if name:
        known = _require_tokenizer(tokenizer, name)
        automaton, state, prefix = _constraint_state(config, name, known, continues_text)
        return len(prefix) + int(automaton.min_tokens[state]) + 1
    if config.prefix:
        known = _require_tokenizer(tokenizer, "prefix")
        return len(_prefix(config.prefix, known, continues_text=continues_text))
    return 0


def continues_text(
    config: DecodingConfig, prompts: Sequence[Sequence[int]], tokenizer: Tokenizer | None
) -> bool:
    """Whether the prompts decode to text; [BOS] alone does not.

    Raises InputError where some do and others do not, and the config constrains how an output
    starts: the tokens of a first word differ from those of a later one.
    """
    if tokenizer is None or not config.constrains_start:
        return True  # which makes no difference
    texts = {bool(text) for text in tokenizer.decode_batch(prompts)}
    if len(texts) > 1:
        raise DecodingError(
            "decoding.mixed_prompts",
            "prompts must all decode to text, or all to none, with a text setting that "
            "constrains the output, got both; call once for each kind",
        )
    return True in texts


def n_forced(constraints: Sequence[Processor]) -> int:
    """The number of tokens that the constraints force before the text of an output.

    >>> n_forced([ForcedToken(token=7, position=0), ForcedToken(token=3, position=11)])
    1
    """
    return int(any(isinstance(each, ForcedToken) and each.position == 0 for each in constraints))


@lru_cache(maxsize=8)  # every batch of a request needs the same automaton
def _automaton(
    name: str, value: str | tuple[str, ...], tokenizer: Tokenizer, continues_text: bool
) -> TokenAutomaton:
    token_bytes = _token_bytes(tokenizer)  # type: ignore[arg-type]  # as above
    if isinstance(value, str):
        automaton = compile_regex(value)
    elif name == "choices":
        automaton = any_text_of(value)
    else:
        for word in value:
            _check_spelling(word, token_bytes)
        automaton = words_of(value)
    return TokenAutomaton(automaton, token_bytes.after_text() if continues_text else token_bytes)


@lru_cache(maxsize=4)
def _token_bytes(tokenizer: Tokenizer) -> TokenBytes:
    return read_token_bytes(tokenizer)


def _after_forced(n: int, processor: Processor) -> Processor:
    return IgnoreFirst(n, processor) if n else processor


def _forbidden(config: DecodingConfig, tokenizer: Tokenizer | None) -> list[tuple[int, ...]]:
    """Every spelling of every forbidden word."""
    if not config.forbidden:
        return []
    token_bytes = _token_bytes(_require_tokenizer(tokenizer, "forbidden"))  # type: ignore[arg-type]  # as above
    return [ids for word in config.forbidden for ids in all_spellings(word, token_bytes)]


def _prefix(text: str, tokenizer: Tokenizer, *, continues_text: bool) -> list[int]:
    """The tokens of a prefix; InputError where they do not decode to it."""
    ids: list[int] | None = tokenizer.encode(text)
    if ids and continues_text:
        token_bytes = _token_bytes(tokenizer)  # type: ignore[arg-type]  # as above
        data = b"".join(token_bytes.medial[i] for i in ids)
        if _n_spaces(data) > _n_spaces(text.encode()):  # SentencePiece adds one before a text
            ids = token_bytes.shortest_tokens(data[1:])
    if ids is None or unk_id(tokenizer) in ids:
        raise DecodingError(
            "decoding.prefix_not_in_vocabulary",
            "the vocabulary cannot spell the prefix {text!r}; try another",
            text=text,
        )
    return ids


def _n_spaces(text: bytes) -> int:
    """The number of leading spaces."""
    return len(text) - len(text.lstrip(b" "))


def _check_not_forbidden(
    text: str, prefix: Sequence[int], words: Sequence[tuple[int, ...]], tokenizer: Tokenizer
) -> None:
    for word in words:
        if any(tuple(prefix[i : i + len(word)]) == word for i in range(len(prefix))):
            raise DecodingError(
                "decoding.prefix_forbidden",
                "decoding.prefix {text!r} contains {tokenizer!r}, which decoding.forbidden bans; "
                "leave one of them out",
                text=text,
                tokenizer=tokenizer.decode(word),
            )


def _check_spelling(word: str, token_bytes: TokenBytes) -> None:
    after_text = token_bytes.after_text()
    if not word or not (after_text.can_spell(word) or after_text.can_spell(f" {word}")):
        raise DecodingError(
            "decoding.allowed_not_in_vocabulary",
            "the vocabulary cannot spell {word!r}; leave it out of decoding.allowed",
            word=word,
        )


def _require_tokenizer(tokenizer: Tokenizer | None, name: str) -> Tokenizer:
    if tokenizer is None:
        raise DecodingError(
            "decoding.text_needs_tokenizer",
            "decoding.{name} is text and needs a tokenizer, got none",
            name=name,
        )
    return tokenizer
