"""Where the markup of a text goes in its translation, by the alignment of their words.

An atom goes where the translation has kept it, else over the words that are aligned with it, else
after the word that is aligned with the one before it. A pair of tags goes around the run of words
that are aligned with what it was around: the run of the highest sum of (share - threshold), where
the share of a word is the weight of its links into the pair. Inner pairs are placed within the run
of the outer one, and neighbours in what is left, so that the result is balanced and has every atom
and every pair once, whatever the translation and its links are.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from jumok.documents.atoms import ATOM, SIGN
from jumok.documents.nodes import Atom, Pair

Link = tuple[int, int, int, int, float]  # characters of the translation, of the text; a weight
MIN_LINK = 0.1  # weight, of decoding.alignment; smaller ones decide no word
Escape = Callable[[str], str]
# "kept": an atom that the translation has; "closing": a flanking mark
Kind = Literal["word", "kept", "markup", "closing", "space"]

OVER_WORDS = 0.5  # the share from which a word is replaced by the atom that it is aligned with
OVER_TERM = 0.5  # of the largest share: what a term of a glossary is written over
_CLOSING = tuple(".,!?;:)]}%…。、")  # signs that no space precedes, unless the translation has it
_BRACKET = re.compile(r"[{}<>]")  # of placeholders and tags
_DEGREES = "\u00b0\u2103\u2109"  # symbols that a translation may write for a word
_SENTENCE_END = (".", "!", "?", "…", "。")
_OWN, _FOREIGN = 1e2, -1e9  # scores of atoms within and outside of a pair: no run has these


class Piece(NamedTuple):
    """A part of a written block."""

    text: str
    kind: Kind
    order: str = ""  # of atoms whose order is kept: what they have in common

    @property
    def is_word(self) -> bool:
        """Whether it comes from the translation, and is not only punctuation."""
        return self.kind in ("word", "kept") and any(map(str.isalnum, self.text))


@dataclass(frozen=True)
class Placed:
    """An atom or a pair at the characters start:end of a text, within the pair number `parent`."""

    start: int
    end: int
    node: Atom | Pair
    parent: int | None
    spaced: bool = False  # whether a space precedes it, which is not part of it
    spaced_after: bool = False


@dataclass
class _Unit:
    """A word or a sign of the translation, or an atom in it."""

    start: int
    end: int
    text: str
    space: bool  # whether a space precedes it
    atom: int | None = None  # its number among the placed
    links: list[tuple[int, int, float]] = field(default_factory=list)
    dropped: bool = False

    def share(self, start: int, end: int) -> float:
        """The part of its weight that is on the characters start:end of the text."""
        total = sum(weight for _, _, weight in self.links)
        inside = sum(
            weight * (min(end, s_end) - max(start, s)) / (s_end - s)
            for s, s_end, weight in self.links
            if s < end and start < s_end
        )
        return inside / total if total else 0.0


def place(
    text: str,
    placed: Sequence[Placed],
    output: str,
    links: Sequence[Link] | None,
    escape: Escape,
) -> list[Piece]:
    """The pieces of a translation with the markup of its text.

    Without `links` the words of the translation are linked to the text in order.

    >>> placed = [Placed(0, 2, Pair("<b>", "</b>"), None)]
    >>> links = [(3, 9, 0, 2, 1.0), (0, 2, 3, 6, 1.0)]
    >>> "".join(piece.text for piece in place("겨울 이다", placed, "is winter", links, str))
    'is <b>winter</b>'
    """
    return _Placement(text, placed, output, links, escape).pieces()


def diagonal_links(text: str, output: str) -> list[Link]:
    """Each word of the output linked to the characters at the same part of the text.

    >>> diagonal_links("가 나", "a b")
    [(0, 1, 0, 1, 1.0), (2, 3, 2, 3, 1.0)]
    """
    scale = len(text) / max(len(output), 1)
    found: list[Link] = []
    for word in re.finditer(r"\S+", output):
        start = int(word.start() * scale)
        found.append((*word.span(), start, max(start + 1, int(word.end() * scale)), 1.0))
    return found


class _Placement:
    def __init__(
        self,
        text: str,
        placed: Sequence[Placed],
        output: str,
        links: Sequence[Link] | None,
        escape: Escape,
    ) -> None:
        self.text, self.placed, self.escape = text, placed, escape
        self.children: dict[int | None, list[int]] = {}
        for number, each in enumerate(placed):
            self.children.setdefault(each.parent, []).append(number)
        for numbers in self.children.values():
            numbers.sort(key=lambda number: placed[number].start)
        self.units = self._units(output)
        self._link(diagonal_links(text, output) if links is None else links)
        self.runs: dict[int, tuple[int, int]] = {}  # of the pairs, in units
        self.points: dict[int, int] = {}  # of the atoms that no unit is
        self._replace_words()

    def pieces(self) -> list[Piece]:
        """Place all, and write it."""
        if self.placed:
            self._arrange(0, len(self.units), None)
        writer = _Writer(self)
        writer.write(0, len(self.units), None)
        return _in_order(writer.pieces, [each.node for each in self.placed])

    def _units(self, output: str) -> list[_Unit]:
        """The words and signs of the output without placeholders and signs that the text lacks.

        Atoms that occur several times are taken in the order of the text.
        """
        waiting: dict[str, list[int]] = {}
        for number, each in enumerate(self.placed):
            if isinstance(each.node, Atom) and each.node.found_as:
                waiting.setdefault(each.node.found_as, []).append(number)
        names = sorted(waiting, key=len, reverse=True)
        pattern = "|".join([*map(_name_pattern, names), ATOM.pattern, r"\w++|\S"])
        units: list[_Unit] = []
        brackets = Counter(_BRACKET.findall(self._own_text()))
        position, space, skipped = 0, False, False
        for match in re.finditer(pattern, output):
            start, end, found = *match.span(), match[0]
            space = space or start > position
            position = end
            numbers = waiting.get(found, [])
            if not numbers and self._is_foreign(found, units[-1].text if units else "", brackets):
                skipped = True
                continue
            atom = numbers.pop(0) if numbers else None
            space = space and not (skipped and found in _CLOSING)
            units.append(_Unit(start, end, found, space, atom))
            space, skipped = False, False
        return units

    def _own_text(self) -> str:
        """The text without what its atoms read."""
        parts, position = [], 0
        for each in sorted(self.placed, key=lambda each: each.start):
            if isinstance(each.node, Atom) and each.start >= position:
                parts.append(self.text[position : each.start])
                position = each.end
        return "".join([*parts, self.text[position:]])

    @staticmethod
    def _is_foreign(found: str, before: str, brackets: Counter[str]) -> bool:
        """Whether a part of the output, after `before`, is the rest of a placeholder or a byte.

        `brackets` are those of the text that are not written yet.
        """
        if ATOM.fullmatch(found) or found == "\ufffd":
            return True
        if found == "%":  # the next one would make "%%"
            return not before.isdecimal()
        if _BRACKET.fullmatch(found):
            brackets[found] -= 1
            return brackets[found] < 0
        return SIGN.fullmatch(found) is not None and found not in _DEGREES

    def _link(self, links: Sequence[Link]) -> None:
        """Give each unit the links of the tokens that overlap it."""
        length, first = len(self.text), 0
        for t, t_end, s, s_end, weight in sorted(links):
            while first < len(self.units) and self.units[first].end <= t:
                first += 1
            for unit in self.units[first:]:
                if unit.start >= t_end:
                    break
                if 0 <= s < s_end <= length:
                    unit.links.append((s, s_end, weight))
        for unit in self.units:
            if unit.atom is not None:
                each = self.placed[unit.atom]
                unit.links = [(each.start, each.end, 1.0)]

    def _replace_words(self) -> None:
        """Put the atoms that the output lacks over the words that are aligned with them."""
        kept = {unit.atom for unit in self.units}
        for number, each in enumerate(self.placed):
            if isinstance(each.node, Pair) or number in kept or not each.node.found_as:
                continue
            shares = [
                unit.share(each.start, each.end) if unit.text.isalnum() else 0.0
                for unit in self.units
            ]
            least = OVER_TERM * max(shares, default=0) if each.node.expected else OVER_WORDS
            scores = [
                _FOREIGN if unit.atom is not None else share - max(least, 0.1)
                for unit, share in zip(self.units, shares, strict=True)
            ]
            start, end, score = _best_run(scores, 0, len(scores))
            if score <= 0:
                continue
            if not each.start and each.node.read.isalpha() and not each.node.expected:
                # Words link to the first token, whatever it is (attention sinks, Xiao et al. 2023).
                start = max(range(start, end), key=scores.__getitem__)
                end = start + 1
            first = self.units[start]
            links = [(each.start, each.end, 1.0)]
            self.units[start:end] = [
                _Unit(first.start, self.units[end - 1].end, "", first.space, number, links)
            ]

    def _arrange(self, low: int, high: int, parent: int | None) -> None:
        """Place the children of a pair, which has the units low:high."""
        numbers = self.children.get(parent, [])
        pairs = [n for n in numbers if isinstance(self.placed[n].node, Pair)]
        self._arrange_pairs(pairs, low, high, parent)
        for number in pairs:
            self._arrange(*self.runs[number], number)
        own = {unit.atom for unit in self.units[low:high] if not unit.dropped}
        for number in numbers:
            if isinstance(self.placed[number].node, Atom) and number not in own:
                self._drop(number)
                self.points[number] = self._point(self.placed[number], low, high, pairs)

    def _drop(self, atom: int) -> None:
        """Leave out an atom where it is outside of its pair."""
        for unit in self.units:
            if unit.atom == atom:
                unit.dropped = True

    def _arrange_pairs(self, pairs: Sequence[int], low: int, high: int, parent: int | None) -> None:
        start, end = (0, len(self.text)) if parent is None else self._span(parent)
        if len(pairs) == 1 and self._span(pairs[0]) == (start, end):
            self.runs[pairs[0]] = (low, high)
            return
        scores = {n: self._scores(n, low, high) for n in pairs}
        best = {n: _best_run(scores[n], 0, high - low)[2] for n in pairs}
        free = [True] * (high - low)
        for number in sorted(pairs, key=lambda n: -best[n]):
            if self._span(number)[0] == self._span(number)[1] and not self._has_atoms(number):
                continue  # around nothing
            open_ = (s if f else _FOREIGN for s, f in zip(scores[number], free, strict=True))
            run = _best_run(list(open_), 0, high - low)
            while run[1] - run[0] > 1 and self.units[low + run[0]].text in _CLOSING:
                run = run[0] + 1, run[1], run[2]
            if run[2] <= 0:
                run = self._nearest_free(number, low, free)
            if run[0] < run[1]:
                self.runs[number] = (low + run[0], low + run[1])
                free[run[0] : run[1]] = [False] * (run[1] - run[0])
        for number in pairs:
            if number not in self.runs:
                point = self._point(self.placed[number], low, high, pairs)
                self.runs[number] = (point, point)

    def _scores(self, number: int, low: int, high: int) -> list[float]:
        """How much each unit belongs into a pair: more than 0 if it does."""
        start, end = self._span(number)
        inside = self.text[start:end]
        shares = [unit.share(start, end) for unit in self.units[low:high]]
        threshold = max(0.5 * max(shares, default=0.0), 0.05)
        found = []
        for unit, share in zip(self.units[low:high], shares, strict=True):
            if unit.atom is not None:
                own = self._is_within(unit.atom, number)
                found.append(_OWN if own else _FOREIGN)
            elif any(map(str.isalnum, unit.text)) or unit.text in inside:
                found.append(share - threshold)
            else:
                found.append(min(share - threshold, 0.0))  # a sign from outside
        return found

    def _nearest_free(self, number: int, low: int, free: Sequence[bool]) -> tuple[int, int, float]:
        """The free word that is nearest to the place of a pair; (0, 0, 0) if there is none."""
        start, end = self._span(number)
        target = (start + end) / 2 / max(len(self.text), 1) * len(self.units)
        words = [
            index
            for index, is_free in enumerate(free)
            if is_free and (unit := self.units[low + index]).atom is None and unit.text.isalnum()
        ]
        if not words:
            return 0, 0, 0.0
        index = max(
            words,
            key=lambda i: (self.units[low + i].share(start, end), -abs(low + i - target)),
        )
        return index, index + 1, 0.0

    def _point(self, each: Placed, low: int, high: int, pairs: Sequence[int]) -> int:
        """The unit before which something without words is put, within low:high."""
        start, end = (0, len(self.text)) if each.parent is None else self._span(each.parent)
        if not self.text[start : each.start].strip():
            return low
        point = high
        if self.text[each.end : end].strip():
            left = self.text[: each.start].rstrip()
            is_end = left.endswith(_SENTENCE_END)
            word = 0 if is_end else left.rfind(" ") + 1
            shares = [
                0.0 if unit.dropped else unit.share(word, len(left))
                for unit in self.units[low:high]
            ]
            if is_end and max(shares, default=0) > 0.5:  # after the sentence
                point = low + max(n for n, share in enumerate(shares, 1) if share > 0.5)
            elif any(shares):
                point = low + shares.index(max(shares)) + 1
        for number in pairs:
            first, last = self.runs.get(number, (0, 0))
            if first < point < last:
                point = last
        return point

    def _span(self, number: int) -> tuple[int, int]:
        return self.placed[number].start, self.placed[number].end

    def _is_within(self, number: int, pair: int) -> bool:
        parent = self.placed[number].parent
        while parent is not None and parent != pair:
            parent = self.placed[parent].parent
        return parent == pair

    def _has_atoms(self, pair: int) -> bool:
        atoms = (unit.atom for unit in self.units if unit.atom is not None)
        return any(self._is_within(atom, pair) for atom in atoms)


class _Writer:
    """Writes units with the atoms and pairs at their places."""

    def __init__(self, placement: _Placement) -> None:
        self.pieces: list[Piece] = []
        self._all = placement
        self._space = False  # before the next unit or atom
        self._opened = True  # at the beginning, and after an opening tag
        self._separated = False  # after a closing mark, which no letter may follow

    def write(self, low: int, high: int, parent: int | None) -> None:
        """The units low:high, which are in the pair `parent`."""
        placement = self._all
        numbers = placement.children.get(parent, [])
        starts: dict[int, list[int]] = {}
        for number in numbers:
            if number in placement.points:
                starts.setdefault(placement.points[number], []).append(number)
            elif number in placement.runs:
                starts.setdefault(placement.runs[number][0], []).append(number)
        at = low
        while at <= high:
            end = self._write_starting(starts.get(at, []), at)
            if end > at:
                at = end
                continue
            if at < high:
                self._write_unit(placement.units[at])
            at += 1

    def _write_starting(self, numbers: Sequence[int], at: int) -> int:
        """Atoms and empty pairs before a unit, then the pair that begins with it; its end."""
        placement, whole = self._all, None
        for number in numbers:
            each = placement.placed[number]
            if isinstance(each.node, Atom):
                self._write_point(each, each.node)
            elif placement.runs[number][1] > at:
                whole = number
            else:
                self._write_pair(number)
        if whole is None:
            return at
        self._write_pair(whole)
        return placement.runs[whole][1]

    def _write_pair(self, number: int) -> None:
        placement = self._all
        each, (low, high) = placement.placed[number], placement.runs[number]
        assert isinstance(each.node, Pair)
        first = next((unit for unit in placement.units[low:high] if not unit.dropped), None)
        flanking = each.node.flanking
        self._write_space(each.spaced if first is None else first.space)
        before = len(self.pieces)
        follows = before > 0 and self.pieces[-1].kind == "closing"
        if flanking and follows:
            before += 1
            self.pieces.append(Piece(" ", "space"))
        self.pieces.append(Piece(each.node.before, "markup"))
        self._space, self._opened = False, True
        inner = len(self.pieces)
        if first is not None:
            first.space = False
        self.write(low, high, number)
        while len(self.pieces) > inner and self.pieces[-1].kind == "space":
            self.pieces.pop()
        if flanking and len(self.pieces) == inner:  # nothing is left for it
            self._write_source(each)
        self._space, self._opened = first is None and each.spaced_after, False
        self.pieces.append(Piece(each.node.after, "closing" if flanking else "markup"))
        if flanking:
            self._separate(before)

    def _write_source(self, each: Placed) -> None:
        """The words of the text itself."""
        for number, word in enumerate(self._all.text[each.start : each.end].split()):
            if number:
                self.pieces.append(Piece(" ", "space"))
            self.pieces.append(Piece(self._all.escape(word), "markup"))

    def _separate(self, start: int) -> None:
        """Spaces around the flanking marks from `start` on, next to letters."""
        inside = "".join(piece.text for piece in self.pieces[start + 1 : -1])
        outside = self.pieces[start - 1].text[-1:] if start else ""
        if outside.isalnum() and not inside[:1].isalnum():
            self.pieces.insert(start, Piece(" ", "space"))
        self._separated = not inside[-1:].isalnum()

    def _write_point(self, each: Placed, atom: Atom) -> None:
        if atom.is_space:  # instead of another space
            if self.pieces and self.pieces[-1].kind == "space":
                self.pieces.pop()
            self.pieces.append(Piece(atom.markup, "markup"))
            self._space, self._opened = False, True
            return
        self._write_space(each.spaced or bool(atom.read) or self._merges_with(atom))
        self.pieces.append(Piece(atom.markup, "markup", _order(atom)))
        self._space = each.spaced_after or bool(atom.read)

    def _write_unit(self, unit: _Unit) -> None:
        if unit.dropped:
            self._space = self._space or unit.space
            return
        if unit.text in _CLOSING:
            self._space = False
        elif self._separated and unit.text[:1].isalnum():
            self._space = True
        self._separated = False
        if unit.atom is None:
            self._write_space(unit.space)
            self.pieces.append(Piece(self._all.escape(unit.text), "word"))
            return
        atom = self._all.placed[unit.atom].node
        assert isinstance(atom, Atom)
        self._write_space(unit.space or self._merges_with(atom))
        self.pieces.append(Piece(atom.markup, "kept", _order(atom)))

    def _merges_with(self, atom: Atom) -> bool:
        """Whether the backticks of code would touch those of the code before it, or % another %."""
        before = self.pieces[-1].text[-1:] if self.pieces else ""
        return atom.markup[0] in "`%" and atom.markup[0] == before

    def _write_space(self, space: bool) -> None:
        if (space or self._space) and not self._opened and self.pieces[-1].kind != "space":
            self.pieces.append(Piece(" ", "space"))
        self._space = self._opened = False


def _order(atom: Atom) -> str:
    return atom.markup[0] if atom.ordered else ""


def _in_order(pieces: Sequence[Piece], nodes: Sequence[Atom | Pair]) -> list[Piece]:
    """The pieces, with placeholders such as %s in the order of the text."""
    atoms = [node for node in nodes if isinstance(node, Atom)]
    waiting: dict[str, Iterator[Atom]] = {
        order: iter([atom for atom in atoms if _order(atom) == order])
        for order in {_order(atom) for atom in atoms}
    }
    return [
        piece._replace(text=next(waiting[piece.order]).markup) if piece.order else piece
        for piece in pieces
    ]


def _name_pattern(name: str) -> str:
    """A pattern of an atom, whole words only where its ends are Latin letters or digits."""
    before = r"(?<![A-Za-z0-9])" if re.match("[A-Za-z0-9]", name) else ""
    after = "(?![A-Za-z0-9])" if re.match("[A-Za-z0-9]", name[-1]) else ""
    return f"{before}{re.escape(name)}{after}"


def _best_run(scores: Sequence[float], low: int, high: int) -> tuple[int, int, float]:
    """The run with the highest sum of scores, the shortest of equal ones; empty if none is > 0."""
    best = (low, low, 0.0)
    start, total = low, 0.0
    for index in range(low, high):
        if total <= 0:
            start, total = index, 0.0
        total += scores[index]
        if total > best[2]:
            best = (start, index + 1, total)
    return best
