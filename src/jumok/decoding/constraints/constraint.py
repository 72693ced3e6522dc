"""Constrained decoding: an answer is one of given texts, or matches a regular expression, always.

A `TokenAutomaton` is an automaton that moves by whole tokens: what a token writes is walked through an
automaton over bytes, so any cut of a text into tokens is as good as another. `Constraint` forbids
every token after which no match can be finished in the tokens that are left.
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
from jumok.errors import InputError

_ENDLESS = 1 << 30  # tokens from where no match can be reached
_AT_ONCE = 16  # states whose moves are looked at together: a few MB with 32,000 tokens
_MASKS = 1024  # remembered at most


def any_text_of(words: Iterable[str]) -> Automaton:
    """The machine that accepts one of the words.

    >>> cities = any_text_of(["서울", "부산"])
    >>> cities.matches("부산"), cities.matches("부산 서울")
    (True, False)
    """
    known = sorted(set(words))
    if not known or not known[0]:
        raise InputError(
            f"{len(known)} words to choose from, or an empty one, came; give at least one "
            "character of one word"
        )
    return compile_automaton(Alternation(tuple(literal(each) for each in known)))


def words_of(words: Iterable[str]) -> Automaton:
    """The machine that accepts one of the words or more, each with a space before it or without.

    >>> fruit = words_of(["사과", "배"])
    >>> fruit.matches("사과 배"), fruit.matches("배배"), fruit.matches("과"), fruit.matches("")
    (True, True, False, False)
    """
    word = Alternation(tuple(literal(each) for each in sorted(set(words))))
    return compile_automaton(
        Repetition(Concatenation((Repetition(literal(" "), 0, 1), word)), 1, None)
    )


class TokenAutomaton:
    """The texts that a machine accepts, as sequences of the tokens of one vocabulary.

    Its states are those of the machine, and one more, `begin`, where nothing is written yet.
    `fewest` (states + 1,) tells how many tokens a match takes from each state.

    >>> spelling = TokenBytes((b"a", b"b", b"ab"), (b"a", b"b", b"ab"))
    >>> language = TokenAutomaton(any_text_of(["ab", "abc"]), spelling)
    >>> int(language.fewest[language.begin]), language.tokens(language.begin, 1).tolist()
    (1, [2])
    """

    def __init__(self, machine: Automaton, spelling: TokenBytes) -> None:
        self.spelling = spelling
        self.start = len(machine)
        self._machine = machine
        self.accepting = np.append(machine.accepting, machine.accepting[START])
        self.min_tokens = self._fewest()
        if self.min_tokens[self.start] == _ENDLESS:
            raise InputError(
                "the vocabulary has no tokens that write any text that is allowed; allow other "
                "texts, or train it with byte_fallback"
            )
        self.max_min_tokens = int(self.min_tokens[self.min_tokens < _ENDLESS].max())

    def after(self, state: int, token: int) -> int:
        """The state after one more token; DEAD when no match begins so."""
        if token >= len(self.spelling):  # a row of the model that no piece stands for
            return DEAD
        if state != self.start:
            written = self.spelling.medial[token]
            return self._machine.run(state, written) if written else DEAD
        if token in self.spelling.spaces:
            return self._after_blank
        written = self.spelling.initial[token]
        return self._machine.run(START, written) if written else DEAD

    def state_of(self, tokens: Iterable[int]) -> int:
        """The state after these tokens."""
        state = self.start
        for token in tokens:
            state = self.after(state, token)
        return state

    def can_finish(self, state: int) -> bool:
        """Whether the vocabulary's tokens write some match from there."""
        return bool(self.min_tokens[state] < _ENDLESS)

    def tokens(self, state: int, remaining: int) -> Integers:
        """The tokens after which a match can be finished; `room` tokens are left, theirs too."""
        _, tokens, states = self._moves(np.array([state], dtype=np.int32))
        return tokens[self.min_tokens[states] < remaining]

    @property
    def _after_blank(self) -> int:
        """Where a space leads that comes first and so is not written."""
        return self.start if self.spelling.strips_space else START

    def _moves(self, states: NDArray[np.int32]) -> tuple[Integers, Integers, NDArray[np.int32]]:
        """As `TokenTrie.walk`, from states of which `begin` is one alone."""
        if states[0] != self.start:
            return self.spelling.medial_trie.walk(self._machine, states)
        start = np.array([START], dtype=np.int32)
        origins, tokens, after = self.spelling.initial_trie.walk(self._machine, start)
        blank = np.array(self.spelling.spaces, dtype=np.int64)
        return (
            np.append(origins, np.zeros_like(blank)),
            np.append(tokens, blank),
            np.append(after, np.full(len(blank), self._after_blank, dtype=np.int32)),
        )

    def _fewest(self) -> NDArray[np.int64]:
        """Find all states one can get to, then go back from those that accept."""
        froms, tos = self._steps()
        fewest = np.where(self.accepting, 0, _ENDLESS)
        while True:
            better = fewest.copy()
            np.minimum.at(better, froms, np.minimum(fewest[tos] + 1, _ENDLESS))
            if (better == fewest).all():
                return fewest
            fewest = better

    def _steps(self) -> tuple[Integers, Integers]:
        """The steps (n,), (n,) between states that some token takes, each once."""
        size = self.start + 1
        steps = []
        seen = np.zeros(size, dtype=np.bool_)
        seen[self.start] = True
        new = np.array([self.start], dtype=np.int32)
        while len(new):
            found = []
            for part in np.array_split(new, -(-len(new) // _AT_ONCE)):
                origins, _, states = self._moves(part)
                found.append(np.unique(part[origins].astype(np.int64) * size + states))
            steps += found
            states = np.unique(np.concatenate(found) % size)
            new = states[~seen[states]].astype(np.int32)
            seen[new] = True
        froms, tos = np.divmod(np.concatenate(steps), size)
        return froms, tos


class Constraint:
    """A `Processor`: every answer is a text of the language, finished within its limit.

    Put it behind the processors that forbid tokens, and before those that cut the unlikely. The
    states of rows follow from their tokens alone, so that beams may be repeated, dropped and put in
    any order. Others may forbid everything that the language demands: then nothing may follow, and
    the search that meets it refuses to go on (`no_continuation_error`); without `strict` a row that is a text of
    the language ends as it is (`can_end_here`).

    >>> spelling = TokenBytes((b"a", b"b", b"ab", b""), (b"a", b"b", b"ab", b""))
    >>> constraint = Constraint(TokenAutomaton(any_text_of(["ab"]), spelling), end_id=3, limits=[3])
    >>> constraint(torch.zeros(1, 4), ProcessorContext(torch.tensor([[0]]), 0, torch.tensor([0])))
    tensor([[-inf, 0., -inf, -inf]])
    """

    def __init__(
        self, language: TokenAutomaton, *, end_id: int, limits: Sequence[int], strict: bool = True
    ) -> None:
        """`limits`: tokens an answer may have, the end among them; one for all, or one a text."""
        self.automaton = language
        self.end_id = end_id
        self.limits = limits
        self.strict = strict
        self._states: dict[tuple[int, ...], int] = {}  # of the rows of the last call
        self._masks: dict[tuple[int, int, int], Tensor] = {}
        shortest = int(language.min_tokens[language.start]) + 1
        if min(limits, default=shortest) < shortest:
            raise InputError(
                f"the shortest text allowed takes {shortest} tokens with the end, and "
                f"{min(limits)} may be written; raise decoding.max_length, max_ratio or max_extra"
            )

    def __call__(self, scores: Tensor, context: ProcessorContext) -> Tensor:
        """(B, V) -> (B, V)."""
        rows = [tuple(row) for row in context.generated.tolist()]
        states = self._follow(rows)
        texts = context.texts.tolist()
        limits = [self.limits[text if len(self.limits) > 1 else 0] for text in texts]
        rooms = [limit - 1 - len(row) for limit, row in zip(limits, rows, strict=True)]
        V = scores.shape[1]
        masks = [self._forbidden(*each, V) for each in zip(states, rooms, strict=True)]
        return scores.masked_fill_(torch.stack(masks).to(scores.device), NEG_INF)

    def accepts(self, context: ProcessorContext) -> Tensor:
        """Which rows are texts of the language as they stand: (B) bool; of a strict one, none."""
        rows = context.generated.tolist()
        accepting = self.automaton.accepting
        return torch.tensor(
            [not self.strict and bool(accepting[self.automaton.state_of(row)]) for row in rows],
            dtype=torch.bool,
        )

    def _follow(self, rows: Sequence[tuple[int, ...]]) -> list[int]:
        """The state of each row: one step from what it was when it was a token shorter."""
        known = self._states
        self._states = {
            row: self.automaton.after(known[row[:-1]], row[-1])
            if row and row[:-1] in known
            else self.automaton.state_of(row)
            for row in rows
        }
        return [self._states[row] for row in rows]

    def _forbidden(self, state: int, room: int, V: int) -> Tensor:
        """The tokens (V,) that may not follow in a state, with room for so many before the end.

        A model may have more rows than its vocabulary has pieces: those write nothing.
        """
        room = min(room, self.automaton.max_min_tokens + 1)  # beyond this nothing changes
        if (state, room, V) not in self._masks:
            if len(self._masks) == _MASKS:
                self._masks.clear()
            forbidden = torch.ones(V, dtype=torch.bool)
            forbidden[torch.from_numpy(self.automaton.tokens(state, room))] = False
            forbidden[self.end_id] = not self.automaton.accepting[state]
            self._masks[state, room, V] = forbidden
        return self._masks[state, room, V]


def can_end_here(processors: Iterable[Processor], context: ProcessorContext) -> Tensor:
    """Which rows may be answered as they stand, though nothing may follow in them: (B) bool.

    All without a constraint; of one that is not strict those that are texts of its language.
    """
    ends = torch.ones(len(context.tokens), dtype=torch.bool, device=context.tokens.device)
    for each in processors:
        n, inner = (each.n, each.processor) if isinstance(each, IgnoreFirst) else (0, each)
        if isinstance(inner, Constraint):
            ends &= inner.accepts(replace(context, start=context.start + n)).to(ends.device)
    return ends


def no_continuation_error() -> InputError:
    """What to raise where an answer would be no text of the language."""
    return InputError(
        "nothing may follow what is written so far: other settings forbid all that the "
        "constraint allows; leave out one of them (min_length, forbidden, no_repeat_ngram)"
    )
