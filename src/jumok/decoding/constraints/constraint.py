"""Constrained decoding: every output is one of given texts, or matches a regular expression.

A `TokenAutomaton` has tokens as its alphabet: it follows the bytes of a token through an automaton
over bytes, so every tokenization of a text is accepted. `Constraint` bans every token after which
no match can be finished within the remaining tokens.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jumok.decoding.constraints.automaton import (
    DEAD,
    START,
    Alternation,
    Automaton,
    Concatenation,
    Repetition,
    compile_automaton,
    literal,
)
from jumok.decoding.constraints.token_bytes import Integers, TokenBytes
from jumok.decoding.processors import NEG_INF, IgnoreFirst, Processor, ProcessorContext
from jumok.errors import DecodingError, InputError

_UNREACHABLE = 1 << 30  # minimum of tokens in a state from which no match can be reached
_STATES_PER_BATCH = 16  # a few MB of transitions with 32,000 tokens
_MAX_MASKS = 1024  # in the cache


def any_text_of(texts: Iterable[str]) -> Automaton:
    """The automaton that accepts one of the texts.

    >>> cities = any_text_of(["서울", "부산"])
    >>> cities.matches("부산"), cities.matches("부산 서울")
    (True, False)

    Raises InputError for no text or an empty one.
    """
    known = sorted(set(texts))
    if not known or not known[0]:
        raise DecodingError(
            "constraint.no_choices",
            "choices must be one or more texts of at least one character, got {got}",
            got=f"an empty one among {len(known)}" if known else "none",
        )
    return compile_automaton(Alternation(tuple(literal(each) for each in known)))


def words_of(words: Iterable[str]) -> Automaton:
    """The automaton that accepts one or more of the words, each with or without a space before it.

    >>> fruit = words_of(["사과", "배"])
    >>> fruit.matches("사과 배"), fruit.matches("배배"), fruit.matches("과"), fruit.matches("")
    (True, True, False, False)
    """
    word = Alternation(tuple(literal(each) for each in sorted(set(words))))
    return compile_automaton(
        Repetition(Concatenation((Repetition(literal(" "), 0, 1), word)), 1, None)
    )


class TokenAutomaton:
    """An automaton over bytes, turned into one over the tokens of a vocabulary.

    Its states are those of the byte automaton, and one more, `start`, before the first token.
    `min_tokens` (states + 1,) is the smallest number of tokens to a match from each state.

    >>> token_bytes = TokenBytes((b"a", b"b", b"ab"), (b"a", b"b", b"ab"))
    >>> tokens = TokenAutomaton(any_text_of(["ab", "abc"]), token_bytes)
    >>> int(tokens.min_tokens[tokens.start]), tokens.tokens(tokens.start, 1).tolist()
    (1, [2])

    Raises InputError if the vocabulary cannot write any match.
    """

    def __init__(self, automaton: Automaton, token_bytes: TokenBytes) -> None:
        self.token_bytes = token_bytes
        self.start = len(automaton)
        self._automaton = automaton
        self.accepting = np.append(automaton.accepting, automaton.accepting[START])
        self.min_tokens = self._min_tokens()
        if self.min_tokens[self.start] == _UNREACHABLE:
            raise DecodingError(
                "constraint.no_spellable_text",
                "the vocabulary must have tokens for at least one allowed text, got none; allow "
                "other texts, or train it with byte_fallback",
            )
        self.max_min_tokens = int(self.min_tokens[self.min_tokens < _UNREACHABLE].max())

    def after(self, state: int, token: int) -> int:
        """The state after one more token; DEAD if no match starts like this."""
        if token >= len(self.token_bytes):  # a row of the model without a piece
            return DEAD
        if state != self.start:
            data = self.token_bytes.medial[token]
            return self._automaton.run(state, data) if data else DEAD
        if token in self.token_bytes.spaces:
            return self._after_space
        data = self.token_bytes.initial[token]
        return self._automaton.run(START, data) if data else DEAD

    def state_of(self, tokens: Iterable[int]) -> int:
        """The state after these tokens."""
        state = self.start
        for token in tokens:
            state = self.after(state, token)
        return state

    def can_finish(self, state: int) -> bool:
        """Whether a match can be reached from the state with tokens of the vocabulary."""
        return bool(self.min_tokens[state] < _UNREACHABLE)

    def tokens(self, state: int, remaining: int) -> Integers:
        """The tokens that start a continuation of at most `remaining` tokens to a match."""
        _, tokens, states = self._moves(np.array([state], dtype=np.int32))
        return tokens[self.min_tokens[states] < remaining]

    @property
    def _after_space(self) -> int:
        """The state after a space at the start of a text, which decoding strips."""
        return self.start if self.token_bytes.strips_space else START

    def _moves(self, states: NDArray[np.int32]) -> tuple[Integers, Integers, NDArray[np.int32]]:
        """The moves of `TokenTrie.walk` from these states; `start` must be the only one."""
        if states[0] != self.start:
            return self.token_bytes.medial_trie.walk(self._automaton, states)
        start = np.array([START], dtype=np.int32)
        origins, tokens, after = self.token_bytes.initial_trie.walk(self._automaton, start)
        spaces = np.array(self.token_bytes.spaces, dtype=np.int64)
        return (
            np.append(origins, np.zeros_like(spaces)),
            np.append(tokens, spaces),
            np.append(after, np.full(len(spaces), self._after_space, dtype=np.int32)),
        )

    def _min_tokens(self) -> NDArray[np.int64]:
        """Find all reachable states, then go backwards from the accepting ones."""
        froms, tos = self._transitions()
        counts = np.where(self.accepting, 0, _UNREACHABLE)
        while True:
            better = counts.copy()
            np.minimum.at(better, froms, np.minimum(counts[tos] + 1, _UNREACHABLE))
            if (better == counts).all():
                return counts
            counts = better

    def _transitions(self) -> tuple[Integers, Integers]:
        """The transitions (n,), (n,) between states that some token makes, each once."""
        size = self.start + 1
        transitions = []
        seen = np.zeros(size, dtype=np.bool_)
        seen[self.start] = True
        new = np.array([self.start], dtype=np.int32)
        while len(new):
            found = []
            for part in np.array_split(new, -(-len(new) // _STATES_PER_BATCH)):
                origins, _, states = self._moves(part)
                found.append(np.unique(part[origins].astype(np.int64) * size + states))
            transitions += found
            states = np.unique(np.concatenate(found) % size)
            new = states[~seen[states]].astype(np.int32)
            seen[new] = True
        froms, tos = np.divmod(np.concatenate(transitions), size)
        return froms, tos


class Constraint:
    """A `Processor`: every output is accepted by the automaton, and finished within its limit.

    It comes after the processors that ban tokens, and before those that truncate the distribution.
    The state of a row depends on its tokens only, so beams can be copied, dropped and reordered. If
    other processors ban every token that the automaton allows, the search raises
    `no_continuation_error`; without `strict` a row that is accepted ends as it is (`can_end_here`).

    >>> token_bytes = TokenBytes((b"a", b"b", b"ab", b""), (b"a", b"b", b"ab", b""))
    >>> automaton = TokenAutomaton(any_text_of(["ab"]), token_bytes)
    >>> constraint = Constraint(automaton, end_id=3, limits=[3])
    >>> constraint(torch.zeros(1, 4), ProcessorContext(torch.tensor([[0]]), 0, torch.tensor([0])))
    tensor([[-inf, 0., -inf, -inf]])

    Raises InputError for a limit below the shortest match.
    """

    def __init__(
        self, automaton: TokenAutomaton, *, end_id: int, limits: Sequence[int], strict: bool = True
    ) -> None:
        """`limits`: the maximum of tokens, the end token included; one for all, or one a text."""
        self.automaton = automaton
        self.end_id = end_id
        self.limits = limits
        self.strict = strict
        self._states: dict[tuple[int, ...], int] = {}  # of the rows of the last call
        self._masks: dict[tuple[int, int, int], Tensor] = {}
        shortest = int(automaton.min_tokens[automaton.start]) + 1
        if min(limits, default=shortest) < shortest:
            raise DecodingError(
                "constraint.limit_too_small",
                "the limit must be at least {shortest} tokens, the shortest allowed text with "
                "the end token, got {limits}; try a larger decoding.max_length, max_ratio or "
                "max_extra",
                shortest=shortest,
                limits=min(limits),
            )

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        rows = [tuple(row) for row in context.generated.tolist()]
        states = self._row_states(rows)
        texts = context.texts.tolist()
        limits = [self.limits[text if len(self.limits) > 1 else 0] for text in texts]
        remaining = [limit - 1 - len(row) for limit, row in zip(limits, rows, strict=True)]
        V = scores.shape[1]
        masks = [self._banned(*each, V) for each in zip(states, remaining, strict=True)]
        return scores.masked_fill_(torch.stack(masks).to(scores.device), NEG_INF)

    def accepts(self, context: ProcessorContext) -> Tensor:
        """Which rows are accepted as they are, (B) bool; none if `strict`."""
        rows = context.generated.tolist()
        accepting = self.automaton.accepting
        return torch.tensor(
            [not self.strict and bool(accepting[self.automaton.state_of(row)]) for row in rows],
            dtype=torch.bool,
        )

    def _row_states(self, rows: Sequence[tuple[int, ...]]) -> list[int]:
        """The state of each row, from the state of its prefix if the last call had it."""
        known = self._states
        self._states = {
            row: self.automaton.after(known[row[:-1]], row[-1])
            if row and row[:-1] in known
            else self.automaton.state_of(row)
            for row in rows
        }
        return [self._states[row] for row in rows]

    def _banned(self, state: int, remaining: int, V: int) -> Tensor:
        """The tokens (V,) that are banned in a state, with `remaining` tokens before the end.

        A model may have more rows than its vocabulary has pieces: those are banned.
        """
        remaining = min(remaining, self.automaton.max_min_tokens + 1)  # the same mask beyond it
        if (state, remaining, V) not in self._masks:
            if len(self._masks) == _MAX_MASKS:
                self._masks.clear()
            banned = torch.ones(V, dtype=torch.bool)
            banned[torch.from_numpy(self.automaton.tokens(state, remaining))] = False
            banned[self.end_id] = not self.automaton.accepting[state]
            self._masks[state, remaining, V] = banned
        return self._masks[state, remaining, V]


def can_end_here(processors: Iterable[Processor], context: ProcessorContext) -> Tensor:
    """Which rows may end as they are although every token is banned: (B) bool.

    All rows if there is no constraint; with one that is not strict those that it accepts.
    """
    ends = torch.ones(len(context.tokens), dtype=torch.bool, device=context.tokens.device)
    for each in processors:
        n, inner = (each.n, each.processor) if isinstance(each, IgnoreFirst) else (0, each)
        if isinstance(inner, Constraint):
            ends &= inner.accepts(replace(context, start=context.start + n)).to(ends.device)
    return ends


def no_continuation_error() -> InputError:
    """The error for an output that cannot be continued to a match."""
    return DecodingError(
        "constraint.no_token_allowed",
        "at least one token must be allowed after those generated so far, got none: other "
        "settings ban every token that the constraint allows; leave out one of them (min_length, "
        "forbidden, no_repeat_ngram)",
    )
