"""A text with markup in it, as a tree: words, line breaks, atoms, and pairs of tags around others.

`Builder` makes the tree of what a format reads, in order; a closing tag without an opening one, or
an opening one that is never closed, is refused, so that a tree is balanced whatever comes in.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from jumok.documents.atoms import SIGN, is_ordered, read_as, split_atoms

MAX_READ = 24  # characters of an atom that a model reads as a word; longer ones are left out


@dataclass(frozen=True)
class Words:
    """Text to translate, and its characters in the file."""

    text: str
    raw: str


@dataclass(frozen=True)
class LineBreak:
    """A line end within a text, with the indentation of the next line."""

    separator: str


@dataclass(frozen=True)
class Atom:
    """What is kept as `markup`, at the place of the word `read` ("": of no word; " ": a space)."""

    markup: str
    read: str = ""
    expected: str = ""  # in a translation; "": the same as `read`
    ordered: bool = False  # among others of its kind

    @property
    def found_as(self) -> str:
        """What stands for it in a translation that has kept it; "" for nothing."""
        return self.expected or self.read.strip()

    @property
    def is_space(self) -> bool:
        """Whether it is white space, as `&nbsp;`, which takes the place of a space."""
        return self.read == " "


@dataclass
class Pair:
    """An opening tag, what is between, and its closing tag.

    Marks that are `flanking` have their meaning by what is next to them, as emphasis in Markdown;
    between them is always something.
    """

    before: str
    after: str = ""
    children: "list[Node]" = field(default_factory=list)
    flanking: bool = False


Node = Words | LineBreak | Atom | Pair
Unescape = Callable[[str], str]


class Builder:
    """Makes the tree of a text; `unescape` makes plain characters of those in the file.

    >>> tree = Builder().words("파일 %s를 ").open("<b>").words("여세요").close("</b>").nodes
    >>> [type(node).__name__ for node in tree]
    ['Words', 'Atom', 'Words', 'Pair']
    """

    def __init__(self, unescape: Unescape = str) -> None:
        self._unescape = unescape
        self.nodes: list[Node] = []
        self._open: list[Pair] = []

    def words(self, raw: str) -> "Builder":
        """Text as it is in the file; its placeholders, addresses and code are atoms."""
        for part, kept in split_atoms(raw):
            if kept:
                self.atom(part, self._unescape(read_as(part)), ordered=is_ordered(part))
            else:
                for node in word_nodes(part, self._unescape):
                    self._add(node)
        return self

    def line_break(self, separator: str) -> "Builder":
        """The end of a line of the file."""
        self._add(LineBreak(separator))
        return self

    def atom(self, markup: str, read: str = "", *, ordered: bool = False) -> "Builder":
        """Something to be kept; what a model reads of it, if it is short enough."""
        words = " ".join(read.split())
        if len(words) > MAX_READ or SIGN.fullmatch(words):
            words = ""
        self._add(Atom(markup, " " if read.isspace() else words, ordered=ordered))
        return self

    def open(self, markup: str) -> "Builder":
        """An opening tag."""
        pair = Pair(markup)
        self._add(pair)
        self._open.append(pair)
        return self

    def close(self, markup: str) -> "Builder":
        """The closing tag of the pair that was opened last."""
        self._open.pop().after = markup
        return self

    def _add(self, node: Node) -> None:
        (self._open[-1].children if self._open else self.nodes).append(node)


def word_nodes(text: str, unescape: Unescape = str) -> Iterator[Words | Atom]:
    """Text as it is in the file: words, and as atoms its symbols and other spaces than " ".

    >>> from html import unescape
    >>> [node.markup for node in word_nodes("♪ 가&nbsp;나 &amp;", unescape)
    ...  if isinstance(node, Atom)]
    ['♪', '&nbsp;']
    """
    position = 0
    for match in SIGN.finditer(text):
        plain = unescape(match[0])
        is_space = plain.isspace()
        if plain.isascii() or not (is_space or SIGN.fullmatch(plain)):
            continue
        if position < match.start():
            words = text[position : match.start()]
            yield Words(unescape(words), words)
        yield Atom(match[0], " " if is_space else "")
        position = match.end()
    if position < len(text):
        yield Words(unescape(text[position:]), text[position:])


def raw(nodes: Sequence[Node]) -> str:
    """The characters of nodes in the file.

    >>> raw(Builder().words("a ").open("<b>").words("%s").close("</b>").nodes)
    'a <b>%s</b>'
    """
    parts = []
    for node in nodes:
        if isinstance(node, Pair):
            parts += [node.before, raw(node.children), node.after]
        elif isinstance(node, Atom):
            parts.append(node.markup)
        else:
            parts.append(node.raw if isinstance(node, Words) else node.separator)
    return "".join(parts)


def count_inline(nodes: Sequence[Node]) -> int:
    """The number of atoms and pairs."""
    return sum(
        1 + count_inline(node.children) if isinstance(node, Pair) else isinstance(node, Atom)
        for node in nodes
    )


def has_letters(nodes: Sequence[Node]) -> bool:
    """Whether there is a letter to translate."""
    return any(
        has_letters(node.children)
        if isinstance(node, Pair)
        else isinstance(node, Words) and any(map(str.isalpha, node.text))
        for node in nodes
    )
