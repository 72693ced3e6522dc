"""Automata over bytes: what regular languages are made of, and a machine that tells who is in one.

Text is UTF-8 here, so that a machine can stand between two bytes of a syllable, as a vocabulary
that spells rare syllables byte by byte does. Thompson 1968 makes nodes of a term, Rabin and Scott
1959 make one state of all the nodes one can be in at once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from jumok.errors import InputError

DEAD: Final = 0  # the state that nothing leads out of
START: Final = 1
MAX_STATES: Final = 100_000  # nodes or states: 100 MB at worst
MAX_EDGES: Final = 2_000_000  # followed while a machine is made: a second or two

Ranges = tuple[tuple[int, int], ...]  # (first, last) code points, last included
ByteRange = tuple[int, int]  # (first, last), last included


@dataclass(frozen=True)
class Characters:
    """One character, out of these ranges of code points."""

    ranges: Ranges


@dataclass(frozen=True)
class Concatenation:
    """One part after the other; without parts, the empty text."""

    parts: tuple["Term", ...]


@dataclass(frozen=True)
class Alternation:
    """Any one of the parts."""

    parts: tuple["Term", ...]


@dataclass(frozen=True)
class Repetition:
    """The part `least` to `most` times; None is without end."""

    part: "Term"
    min_count: int
    max_count: int | None


Term = Characters | Concatenation | Alternation | Repetition


def literal(text: str) -> Term:
    """The term of this very text.

    >>> literal("가")
    Concatenation(parts=(Characters(ranges=((44032, 44032),)),))
    """
    return Concatenation(tuple(Characters(((ord(c), ord(c)),)) for c in text))


@dataclass(frozen=True)
class Automaton:
    """A deterministic machine over bytes; it starts in state START and never leaves DEAD.

    >>> machine = automaton(Repetition(literal("가나"), 1, 2))
    >>> machine.matches("가나가나"), machine.matches("가나가")
    (True, False)
    """

    table: NDArray[np.int32]  # (states, classes): the state after a byte of that class
    classes: NDArray[np.int32]  # (256,): bytes of one class always lead to the same state
    accepting: NDArray[np.bool_]  # (states,): what was read is a whole match

    def __len__(self) -> int:
        return len(self.table)

    def step(self, states: NDArray[np.int32], values: NDArray[np.int32]) -> NDArray[np.int32]:
        """The states (n,) after a byte each, values (n,): (n,)."""
        return self.table[states, self.classes[values]]

    def run(self, state: int, read: bytes) -> int:
        """The state after some bytes."""
        for value in read:
            state = int(self.table[state, self.classes[value]])
        return state

    def matches(self, text: str) -> bool:
        """Whether the whole text is in the language."""
        return bool(self.accepting[self.run(START, text.encode())])


def compile_automaton(term: Term) -> Automaton:
    """The machine of a term; InputError when it grows beyond LARGEST states."""
    nodes = _Nodes()
    end = nodes.add()
    begin = nodes.build(term, end)
    cuts = sorted({0} | {cut for edges in nodes.edges for a, b, _ in edges for cut in (a, b + 1)})
    cuts = [cut for cut in cuts if cut < 256]  # a class of bytes begins at every cut
    classes = np.searchsorted(cuts, np.arange(257), side="right") - 1
    classes[256] = len(cuts)
    class_of: list[int] = classes.tolist()

    states: list[frozenset[int]] = [frozenset(), nodes.reached({begin})]
    numbers = {state: number for number, state in enumerate(states)}
    rows: list[list[int]] = []
    followed = 0
    for state in states:  # grows while it is walked through
        followed = _bounded(followed + len(cuts) + sum(len(nodes.edges[node]) for node in state))
        following: list[set[int]] = [set() for _ in cuts]
        for node in state:
            for first, last, target in nodes.edges[node]:
                for c in range(class_of[first], class_of[last + 1]):
                    following[c].add(target)
        row = []
        for targets in following:
            reached = nodes.reached(targets)
            followed += len(reached)
            if reached not in numbers:
                numbers[reached] = _small(len(states))
                states.append(reached)
            row.append(numbers[reached])
        rows.append(row)
    return Automaton(
        table=np.array(rows, dtype=np.int32),
        classes=classes[:256].astype(np.int32),
        accepting=np.array([end in state for state in states]),
    )


@dataclass
class _Nodes:
    """Places in a term: bytes lead from one to another (`edges`), or nothing at all (`free`)."""

    edges: list[tuple[tuple[int, int, int], ...]] = field(default_factory=list)
    free: list[tuple[int, ...]] = field(default_factory=list)
    same: dict[tuple[tuple[int, int, int], ...], int] = field(default_factory=dict)

    def add(self, free: Sequence[int] = ()) -> int:
        """A new node from which one gets to others for free."""
        self.edges.append(())
        self.free.append(tuple(free))
        return _small(len(self.edges) - 1)

    def reading(self, edges: tuple[tuple[int, int, int], ...]) -> int:
        """The node with these edges (first byte, last byte, target), made once."""
        if edges not in self.same:
            self.same[edges] = self.add()
            self.edges[-1] = edges
        return self.same[edges]

    def build(self, term: Term, after: int) -> int:
        """The node from which reading a match of `term` leads to `after`."""
        match term:
            case Characters(ranges):
                return self._characters(ranges, after)
            case Concatenation(parts):
                for part in reversed(parts):
                    after = self.build(part, after)
                return after
            case Alternation(parts):
                return self.add([self.build(part, after) for part in parts])
            case Repetition(part, least, most):
                if most is None:
                    again = self.add()
                    self.free[again] = (self.build(part, again), after)
                    after = again
                else:
                    end = after
                    for _ in range(most - least):
                        after = self.add([self.build(part, after), end])
                for _ in range(least):
                    before, after = after, self.build(part, after)
                    if after == before:  # the empty text, as often as one likes
                        break
                return after

    def _characters(self, ranges: Ranges, after: int) -> int:
        edges = []
        for first, last in ranges:
            for sequence in utf8_ranges(first, last):
                target = after
                for low, high in reversed(sequence[1:]):
                    target = self.reading(((low, high, target),))
                edges.append((*sequence[0], target))
        return self.reading(tuple(edges))

    def reached(self, nodes: set[int]) -> frozenset[int]:
        """These nodes and all that one gets to from them for free."""
        reached, waiting = set(nodes), list(nodes)
        while waiting:
            new = set(self.free[waiting.pop()]) - reached
            reached |= new
            waiting += new
        return frozenset(reached)


def utf8_ranges(first: int, last: int) -> Iterator[list[ByteRange]]:
    """The code points from first to last as sequences of byte ranges; surrogates have no bytes.

    >>> list(utf8_ranges(ord("a"), ord("é")))
    [[(97, 127)], [(194, 194), (128, 191)], [(195, 195), (128, 169)]]
    """
    for low, high in ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF),
                      (0x10000, 0x10FFFF)):  # fmt: skip  # as many bytes each
        if max(first, low) <= min(last, high):
            yield from _split(chr(max(first, low)).encode(), chr(min(last, high)).encode())


def _split(first: bytes, last: bytes) -> Iterator[list[ByteRange]]:
    """Two characters of as many bytes: the ranges between them."""
    if len(first) == 1:
        yield [(first[0], last[0])]
        return
    least, most = b"\x80" * (len(first) - 1), b"\xbf" * (len(first) - 1)
    if first[0] == last[0]:
        tails = [(first[0], first[1:], last[1:])]
        whole = range(0)
    else:  # the first and the last leading byte may lead to a part only, those between to all
        tails = [(first[0], first[1:], most), (last[0], least, last[1:])]
        whole = range(first[0] + 1, last[0])
    for lead, low, high in tails:
        for tail in _split(low, high):
            yield [(lead, lead), *tail]
    if whole:
        yield [(whole[0], whole[-1]), *[(0x80, 0xBF)] * len(least)]


def _small(number: int) -> int:
    """The number itself, if a machine may grow so far."""
    if number >= MAX_STATES:
        raise InputError(
            f"the expression needs more than {MAX_STATES:,} states; repeat less often, or give fewer "
            "words"
        )
    return number


def _bounded(edges: int) -> int:
    """The number itself, if a machine may be made of so many steps."""
    if edges > MAX_EDGES:
        raise InputError(
            "the expression takes too long to build; use fewer of \\w, \\d and . beside one another"
        )
    return edges
