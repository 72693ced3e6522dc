"""A block: a paragraph, heading or cell that is translated as one text and written with its markup.

The text of a block has single spaces and no markup. Positions are characters of that text.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from jumok.documents.atoms import ATOM
from jumok.documents.layout import fill
from jumok.documents.nodes import Atom, LineBreak, Node, Pair, Words, count_inline, has_letters, raw
from jumok.documents.placement import Link, Piece, Placed, place
from jumok.unicode_forms import normalize

MAX_INLINE = 64  # atoms and pairs of a block: their places take a time that grows with the square

_SPACES = re.compile(r"\s+")
_MARK = "\0"  # in place of a placeholder
_WORD = re.compile(r"[^\W\d_]{2}|(?<!\S)[^\W\d_](?!\S)")
FindTerms = Callable[[str], Iterator[tuple[int, int, str]]]  # start, end, translation ("": kept)


@dataclass(frozen=True)
class Style:
    """How a format writes text.

    `escape` makes characters of the file of plain ones; `finish` changes what a block begins with.
    A line may begin with a word that `may_start` it, and end `within_words` where a translation has
    too few.
    """

    escape: Callable[[str], str] = str
    finish: Callable[[str], str] = str
    may_start: Callable[[str], bool] = bool
    within_words: bool = True


PLAIN = Style()


@dataclass(frozen=True)
class Block:
    """`text` is read by a model, `raw` is what the file has in its place."""

    text: str
    raw: str
    placed: tuple[Placed, ...] = ()
    separators: tuple[str, ...] = ()  # of its lines
    style: Style = PLAIN

    @classmethod
    def of(cls, nodes: Sequence[Node], style: Style = PLAIN) -> "Block":
        """The block of a tree.

        >>> nodes = [Words("겨울은  ", ""), Pair("<b>", "</b>", [Words("추워요", "")])]
        >>> block = Block.of(nodes)
        >>> block.text, [(each.start, each.end) for each in block.placed]
        ('겨울은 추워요', [(4, 7)])
        """
        flat = _Flattened()
        flat.add(nodes)
        text = "".join(flat.parts).rstrip()
        return cls(
            text,
            raw(nodes),
            tuple(_within(text, flat.placed)),
            tuple(flat.separators),
            style,
        )

    @property
    def needs_links(self) -> bool:
        """Whether the alignment of the words decides where markup goes."""
        whole = (0, len(self.text))
        return any(
            isinstance(each.node, Atom) or (each.start, each.end) != whole for each in self.placed
        )

    def write(self, output: str, links: Sequence[Link] | None = None) -> str:
        """The block with the translation `output` of its text, and its markup by `links`.

        A translation without a letter or digit is not used, nor one of placeholders only if the
        text has words: the block stays as it is.
        """
        if output == self.text and not any(_is_term(each) for each in self.placed):
            return self.raw
        style = self.style
        pieces = place(self.text, self.placed, normalize("NFC", output), links, style.escape)
        if not any(piece.is_word for piece in pieces) or self._lacks_words(pieces):
            return self.raw
        found = fill(pieces, self.separators, style.may_start, within_words=style.within_words)
        return self.raw if found is None else style.finish(found)

    def _lacks_words(self, pieces: Sequence[Piece]) -> bool:
        """Whether the words of the text are gone; the particle of a placeholder may be."""
        atoms = [each for each in self.placed if isinstance(each.node, Atom)]
        if any(map(_is_term, atoms)) or any(
            piece.is_word and piece.kind == "word" for piece in pieces
        ):
            return False
        characters = list(self.text)
        for each in atoms:
            characters[each.start : each.end] = _MARK * (each.end - each.start)
        return has_words("".join(characters))

    def with_terms(self, find: FindTerms) -> "Block":
        """The block whose terms are atoms, except those that other markup divides."""
        placed = list(self.placed)
        for start, end, term in find(self.text):
            if not any(_divides(each, start, end) for each in self.placed):
                source = self.text[start:end]
                atom = Atom(self.style.escape(term or source), source, expected=term)
                placed.append(Placed(start, end, atom, _innermost(self.placed, start, end)))
        return replace(self, placed=tuple(placed))


def has_words(text: str) -> bool:
    """Whether a text has a word without its placeholders; a letter next to one may be a particle.

    >>> has_words("할 일 {name}"), has_words("{name}님, {count}개"), has_words("")
    (True, False, False)
    """
    return _WORD.search(ATOM.sub(_MARK, text)) is not None


def parts_of(nodes: Sequence[Node], style: Style = PLAIN) -> list[str | Block]:
    r"""The blocks of a tree, and what is around them: white space, markup without text.

    A tree of more than `MAX_INLINE` atoms and pairs is divided between its nodes; a node with more
    stays as it is.

    >>> [str(part) if isinstance(part, str) else part.text
    ...  for part in parts_of([Words(" 가 나\n", " 가 나\n")])]
    [' ', '가 나', '\n']
    """
    found: list[str | Block] = []
    for some in _divided(nodes):
        if not has_letters(some) or count_inline(some) > MAX_INLINE:
            found.append(raw(some))
            continue
        before, core, after = _trimmed(some)
        found += [before, Block.of(core, style), after]
    return [part for part in found if part != ""]


def _divided(nodes: Sequence[Node]) -> Iterator[list[Node]]:
    some: list[Node] = []
    count = 0
    for node in nodes:
        size = count_inline([node])
        if some and count + size > MAX_INLINE:
            yield some
            some, count = [], 0
        some.append(node)
        count += size
    if some:
        yield some


def _trimmed(nodes: Sequence[Node]) -> tuple[str, list[Node], str]:
    """White space before a tree, the tree without it, and white space after it."""
    core = list(nodes)
    before, after = "", ""
    while _is_space(core[0]):
        before += raw([core.pop(0)])
    while _is_space(core[-1]):
        after = raw([core.pop()]) + after
    if isinstance(node := core[0], Words):
        kept = node.raw.lstrip()
        before += node.raw[: len(node.raw) - len(kept)]
        core[0] = Words(node.text.lstrip(), kept)
    if isinstance(node := core[-1], Words):
        kept = node.raw.rstrip()
        after = node.raw[len(kept) :] + after
        core[-1] = Words(node.text.rstrip(), kept)
    return before, core, after


def _is_space(node: Node) -> bool:
    if isinstance(node, Atom):
        return node.is_space
    return isinstance(node, Words | LineBreak) and not raw([node]).strip()


def _divides(each: Placed, start: int, end: int) -> bool:
    """Whether an atom overlaps start:end, or a tag is within."""
    if isinstance(each.node, Atom):
        return each.start < end and start < each.end
    outside = each.end <= start or end <= each.start
    return not outside and not (each.start <= start and end <= each.end)


def _is_term(each: Placed) -> bool:
    """Whether it is a word of a glossary."""
    return isinstance(each.node, Atom) and each.node.expected != ""


def _innermost(placed: Sequence[Placed], start: int, end: int) -> int | None:
    """The last pair around start:end: later ones are within earlier ones."""
    around = [
        number
        for number, each in enumerate(placed)
        if isinstance(each.node, Pair) and each.start <= start and end <= each.end
    ]
    return around[-1] if around else None


class _Flattened:
    """The text of a tree, and where its atoms and pairs are in it."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.placed: list[Placed] = []
        self.separators: list[str] = []
        self._length, self._after_space = 0, True
        self._spaced = True  # whether no atom that is not read is behind that space

    def add(self, nodes: Sequence[Node], parent: int | None = None) -> None:
        """Append the nodes; `parent` is the number of the pair that they are in."""
        for node in nodes:
            if isinstance(node, Words):
                self._append(_SPACES.sub(" ", normalize("NFC", node.text)))
            elif isinstance(node, LineBreak):
                self.separators.append(node.separator)
                self._append(" ")
            else:
                self._add_inline(node, parent)

    def _add_inline(self, node: Atom | Pair, parent: int | None) -> None:
        number, start = len(self.placed), self._length
        self.placed.append(Placed(start, start, node, parent, self._spaced))
        if isinstance(node, Pair):
            self.add(node.children, number)
        elif node.read:
            self._append(normalize("NFC", node.read))
        else:
            self._spaced = False
        self.placed[number] = replace(self.placed[number], end=self._length)

    def _append(self, text: str) -> None:
        if self._after_space and text[:1] == " ":
            self._mark_spaces()
            text = text[1:]
        if text:
            self.parts.append(text)
            self._length += len(text)
            self._after_space = self._spaced = text[-1] == " "

    def _mark_spaces(self) -> None:
        """Note the space after what is not read, which the text has once, before it."""
        for number in range(len(self.placed) - 1, -1, -1):
            each = self.placed[number]
            if each.start < self._length:
                break
            self.placed[number] = replace(each, spaced_after=True)
            if isinstance(each.node, Atom):  # what precedes it has no space after it
                self._mark_pairs(each.parent)
                break

    def _mark_pairs(self, parent: int | None) -> None:
        """Note the space after pairs that have nothing but what was marked."""
        while parent is not None and (each := self.placed[parent]).start == self._length:
            self.placed[parent] = replace(each, spaced_after=True)
            parent = each.parent


def _within(text: str, placed: Sequence[Placed]) -> Iterator[Placed]:
    """The placed without the space at the end of a text."""
    for each in placed:
        start, end = min(each.start, len(text)), min(each.end, len(text))
        spaced_after = each.spaced_after or text[end : end + 1] == " "
        yield replace(each, start=start, end=end, spaced_after=spaced_after)
