"""Regular expressions as terms, and deterministic automata over UTF-8 bytes that accept them.

Bytes, because a vocabulary with byte fallback has tokens that are parts of a character. A term is
turned into a nondeterministic automaton (Thompson 1968), and that into a deterministic one by the
subset construction (Rabin and Scott 1959).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from jumok.errors import DecodingError

DEAD: Final = 0  # the state that no match goes through
START: Final = 1
MAX_STATES: Final = 100_000  # nodes or states: at most 100 MB
MAX_EDGES: Final = 2_000_000  # followed during the subset construction: one or two seconds

Ranges = tuple[tuple[int, int], ...]  # (first, last) code points, last included
ByteRange = tuple[int, int]  # (first, last), last included


@dataclass(frozen=True)
class Characters:
    """One character in these ranges of code points."""

    ranges: Ranges


@dataclass(frozen=True)
class Concatenation:
    """The parts one after the other; without parts, the empty text."""

    parts: tuple["Term", ...]


@dataclass(frozen=True)
class Alternation:
    """Any one of the parts."""

    parts: tuple["Term", ...]


@dataclass(frozen=True)
class Repetition:
    """The part `min_count` to `max_count` times; None is unlimited."""

    part: "Term"
    min_count: int
    max_count: int | None


Term = Characters | Concatenation | Alternation | Repetition


def literal(text: str) -> Term:
    """The term that matches exactly this text.

    >>> literal("가")
    Concatenation(parts=(Characters(ranges=((44032, 44032),)),))
    """
    return Concatenation(tuple(Characters(((ord(c), ord(c)),)) for c in text))


@dataclass(frozen=True)
class Automaton:
    """A deterministic automaton over bytes; it starts in state START and never leaves DEAD.

    >>> automaton = compile_automaton(Repetition(literal("가나"), 1, 2))
    >>> automaton.matches("가나가나"), automaton.matches("가나가")
    (True, False)
    """

    table: NDArray[np.int32]  # (states, classes): the state after a byte of that class
    classes: NDArray[np.int32]  # (256,): bytes of one class have the same transitions
    accepting: NDArray[np.bool_]  # (states,): True after a whole match

    def __len__(self) -> int:
        return len(self.table)

    def step(self, states: NDArray[np.int32], values: NDArray[np.int32]) -> NDArray[np.int32]:
        """The states (n,) after one byte each, values (n,): (n,)."""
        return self.table[states, self.classes[values]]

    def run(self, state: int, read: bytes) -> int:
        """The state after some bytes."""
        for value in read:
            state = int(self.table[state, self.classes[value]])
        return state

    def matches(self, text: str) -> bool:
        """Whether the whole text is accepted."""
        return bool(self.accepting[self.run(START, text.encode())])


def compile_automaton(term: Term) -> Automaton:
    """The automaton of a term; InputError if it has more than MAX_STATES states."""
    nodes = _Nodes()
    end = nodes.add()
    start = nodes.build(term, end)
    bounds = {bound for edges in nodes.edges for a, b, _ in edges for bound in (a, b + 1)}
    cuts = sorted(bound for bound in bounds | {0} if bound < 256)  # the first byte of each class
    classes = np.searchsorted(cuts, np.arange(257), side="right") - 1
    classes[256] = len(cuts)
    class_of: list[int] = classes.tolist()

    states: list[frozenset[int]] = [frozenset(), nodes.closure({start})]
    numbers = {state: number for number, state in enumerate(states)}
    rows: list[list[int]] = []
    followed = 0
    for state in states:  # which grows during the loop
        followed = _check_edges(
            followed + len(cuts) + sum(len(nodes.edges[node]) for node in state)
        )
        following: list[set[int]] = [set() for _ in cuts]
        for node in state:
            for first, last, target in nodes.edges[node]:
                for c in range(class_of[first], class_of[last + 1]):
                    following[c].add(target)
        row = []
        for targets in following:
            reached = nodes.closure(targets)
            followed += len(reached)
            if reached not in numbers:
                numbers[reached] = _check_states(len(states))
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
    """A nondeterministic automaton: its byte edges, and its epsilon edges (`free`)."""

    edges: list[tuple[tuple[int, int, int], ...]] = field(default_factory=list)
    free: list[tuple[int, ...]] = field(default_factory=list)
    same: dict[tuple[tuple[int, int, int], ...], int] = field(default_factory=dict)

    def add(self, free: Sequence[int] = ()) -> int:
        """A new node with epsilon edges to others."""
        self.edges.append(())
        self.free.append(tuple(free))
        return _check_states(len(self.edges) - 1)

    def byte_node(self, edges: tuple[tuple[int, int, int], ...]) -> int:
        """The node with these edges (first byte, last byte, target), created once."""
        if edges not in self.same:
            self.same[edges] = self.add()
            self.edges[-1] = edges
        return self.same[edges]

    def build(self, term: Term, after: int) -> int:
        """The node from which a match of `term` leads to the node `after`."""
        match term:
            case Characters(ranges):
                return self._characters(ranges, after)
            case Concatenation(parts):
                for part in reversed(parts):
                    after = self.build(part, after)
                return after
            case Alternation(parts):
                return self.add([self.build(part, after) for part in parts])
            case Repetition(part, min_count, max_count):
                if max_count is None:
                    loop = self.add()
                    self.free[loop] = (self.build(part, loop), after)
                    after = loop
                else:
                    end = after
                    for _ in range(max_count - min_count):
                        after = self.add([self.build(part, after), end])
                for _ in range(min_count):
                    before, after = after, self.build(part, after)
                    if after == before:  # the part is the empty text
                        break
                return after

    def _characters(self, ranges: Ranges, after: int) -> int:
        edges = []
        for first, last in ranges:
            for sequence in utf8_ranges(first, last):
                target = after
                for low, high in reversed(sequence[1:]):
                    target = self.byte_node(((low, high, target),))
                edges.append((*sequence[0], target))
        return self.byte_node(tuple(edges))

    def closure(self, nodes: set[int]) -> frozenset[int]:
        """The epsilon closure of these nodes."""
        reached, waiting = set(nodes), list(nodes)
        while waiting:
            new = set(self.free[waiting.pop()]) - reached
            reached |= new
            waiting += new
        return frozenset(reached)


def utf8_ranges(first: int, last: int) -> Iterator[list[ByteRange]]:
    """The code points from first to last as sequences of byte ranges, without surrogates.

    >>> list(utf8_ranges(ord("a"), ord("é")))
    [[(97, 127)], [(194, 194), (128, 191)], [(195, 195), (128, 169)]]
    """
    for low, high in ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF),
                      (0x10000, 0x10FFFF)):  # fmt: skip  # encodings of one length
        if max(first, low) <= min(last, high):
            yield from _split(chr(max(first, low)).encode(), chr(min(last, high)).encode())


def _split(first: bytes, last: bytes) -> Iterator[list[ByteRange]]:
    """The byte ranges from one character to another whose encoding is as long."""
    if len(first) == 1:
        yield [(first[0], last[0])]
        return
    lowest, highest = b"\x80" * (len(first) - 1), b"\xbf" * (len(first) - 1)
    if first[0] == last[0]:
        tails = [(first[0], first[1:], last[1:])]
        whole = range(0)
    else:  # leading bytes between the first and the last have all continuations
        tails = [(first[0], first[1:], highest), (last[0], lowest, last[1:])]
        whole = range(first[0] + 1, last[0])
    for lead, low, high in tails:
        for tail in _split(low, high):
            yield [(lead, lead), *tail]
    if whole:
        yield [(whole[0], whole[-1]), *[(0x80, 0xBF)] * len(lowest)]


def _check_states(number: int) -> int:
    """The number itself; InputError if it is MAX_STATES or more."""
    if number >= MAX_STATES:
        raise DecodingError(
            "constraint.too_many_states",
            "the expression must have at most {max_states:,} states, got more; try smaller "
            "repetition counts or fewer words",
            max_states=MAX_STATES,
        )
    return number


def _check_edges(edges: int) -> int:
    """The number itself; InputError if it is more than MAX_EDGES."""
    if edges > MAX_EDGES:
        raise DecodingError(
            "constraint.too_many_edges",
            "the automaton must follow at most {max_edges:,} edges, got more; try fewer adjacent "
            "\\w, \\d and .",
            max_edges=MAX_EDGES,
        )
    return edges
