"""The inline markup of Markdown: emphasis, code, links, images, tags and entities.

A mark of emphasis opens before a letter and closes after one, and `_` not within words; marks
without their other half are signs of the text. Next to Hangul, where CommonMark sees signs, the
marks of `**서울(Seoul)**에서` and `_서울_에서` are emphasis, as their author meant it. A link
whose text is its label stays as it is.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import unescape as unescape_entities

from jumok.documents.atoms import ATOM, CODE, is_ordered, read_as
from jumok.documents.block import Style
from jumok.documents.html import KEPT_INLINE
from jumok.documents.nodes import MAX_READ, Atom, LineBreak, Node, Pair, Words, raw, word_nodes

MAX_DEPTH = 16  # of marks and tags within each other

_TOKEN = re.compile(
    r"(?P<escape>\\[!-/:-@\[-`{-~])"
    r"|(?P<code>" + CODE + r")"
    r"|(?P<auto><[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*+>|<[\w.+-]+@[\w.-]+>)"
    r"|(?P<comment><!--[^-]*+(?:-(?!->)[^-]*+)*+-->)"
    r"|(?P<tag></?[A-Za-z][^<>]*+>)"
    r"|(?P<image>!\[[^\]\n]*+\](?:\((?:[^()\n\\]|\\.|\([^()\n]*+\))*+\)|\[[^\]\n]*+\]))"
    r"|(?P<note>\[\^[^\]\s]++\])"
    r"|(?P<atom>" + ATOM.pattern.replace("?P<ticks>", "?P<t>").replace("?P=ticks", "?P=t") + r")"
    r"|(?P<open>\[)"
    r"|(?P<close>\](?:\((?:[^()\n\\]|\\.|\([^()\n]*+\))*+\)|\[[^\]\n]*+\])?(?:\{[^{}\n]*+\})?)"
    r"|(?P<entity>&\#?[A-Za-z0-9]{1,31};)"
    r"|(?P<run>\*+|_+|~~+)"
)
_TAG_NAME = re.compile(r"</?([A-Za-z][\w-]*)")
_SPECIAL = re.compile(r"([\\`*\[\]<~|])")
_SPECIAL_SIGNS = "|"  # which a translation would replace by other punctuation
_EDGE_UNDERSCORE = re.compile(r"^_|_$")
_LINE_START = re.compile(r"([-+>#=:]|[0-9]{1,9}(?=[.)]))")


def _escape(word: str) -> str:
    r"""A word that Markdown shows as it is.

    >>> print(_escape("*"), _escape("snake_case"), _escape("_"))
    \* snake_case \_
    """
    return _EDGE_UNDERSCORE.sub(r"\\_", _SPECIAL.sub(r"\\\1", word))


def _finish(text: str) -> str:
    r"""The text of a block that does not begin as another block would.

    >>> print(_finish("1. May"), _finish("- 3"), _finish("-3"))
    1\. May \- 3 \-3
    """
    match = _LINE_START.match(text)
    if match is None:
        return text
    return f"{match[0]}\\{text[match.end() :]}" if match[0].isdigit() else f"\\{text}"


STYLE = Style(_escape, _finish, lambda text: _LINE_START.match(text) is None)


def _flanks(before: str, after: str) -> bool:
    """Whether a run of marks is left-flanking between these characters, "" at an end.

    CommonMark 0.31, section 6.2.
    """
    if not after or after.isspace():
        return False
    return not _is_sign(after) or not before or before.isspace() or _is_sign(before)


def _is_hangul(character: str) -> bool:
    return "\uac00" <= character <= "\ud7a3"


def _is_sign(character: str) -> bool:
    return character != "" and not character.isalnum() and not character.isspace()


@dataclass
class _Open:
    """A mark or tag that may get its other half.

    The mark of emphasis is a run of one sign, of which each closing run takes one or two.
    """

    mark: str
    name: str  # that of the other half; of a run its sign
    nodes: list[Node] = field(default_factory=list)


def inline_nodes(
    lines: Sequence[str], breaks: Sequence[str] = (), labels: frozenset[str] = frozenset()
) -> list[Node]:
    """The tree of the lines of a paragraph, with `breaks` between them.

    `labels` are those that the file defines, in lower case.

    >>> [tree] = inline_nodes(["**[겨울](winter.md)**"])
    >>> tree.before, tree.children[0].after
    ('**', '](winter.md)')
    """
    text = "\n".join(lines)
    tokens = list(_TOKEN.finditer(text))
    parser = _Parser(_links(tokens, labels), breaks)
    parser.read(text, tokens)
    return parser.end()


def _links(tokens: Sequence[re.Match[str]], labels: frozenset[str]) -> set[re.Match[str]]:
    """The brackets of links: each closing one is that of the last opening one, link or not."""
    found: set[re.Match[str]] = set()
    opened: list[re.Match[str]] = []
    for match in tokens:
        if match["open"]:
            opened.append(match)
        elif match["close"] and opened:
            first = opened.pop()
            label = match.string[first.end() : match.start()].lower()
            if len(match[0]) > 1 or label in labels:
                found |= {first, match}
    return found


class _Parser:
    def __init__(self, links: set[re.Match[str]], breaks: Sequence[str]) -> None:
        self._stack = [_Open("", "")]
        self._links, self._breaks = links, iter(breaks)

    def _add(self, node: Node) -> None:
        """Append to what is open."""
        self._stack[-1].nodes.append(node)

    def read(self, text: str, tokens: Sequence[re.Match[str]]) -> None:
        """Read the lines."""
        position = 0
        for match in tokens:
            self._words(text[position : match.start()])
            position = match.end()
            self._token(match, text)
        self._words(text[position:])

    def end(self) -> list[Node]:
        """The tree; what is still open is text."""
        self._demote(1)
        return self._stack[0].nodes

    def _words(self, text: str) -> None:
        for number, part in enumerate(text.split("\n")):
            if number:
                self._add(LineBreak(next(self._breaks)))
            for node in word_nodes(part):
                self._add(node)

    def _with_breaks(self, markup: str) -> str:
        """Markup over several lines as it is in the file."""
        first, *others = markup.split("\n")
        return first + "".join(next(self._breaks) + part for part in others)

    def _token(self, match: re.Match[str], text: str) -> None:
        found = match[0]
        if match["code"]:
            self._atom(found, read_as(found))
        elif match["atom"]:
            self._atom(found, read_as(found), ordered=is_ordered(found))
        elif match["escape"]:
            kept = found[1] in _SPECIAL_SIGNS
            self._add(Atom(found, found[1]) if kept else Words(found[1], found))
        elif match["entity"]:
            for node in word_nodes(found, unescape_entities):
                self._add(node)
        elif match["tag"]:
            self._tag(self._with_breaks(found))
        elif match["open"] and match in self._links:
            self._push("[", "[")
        elif match["close"] and match in self._links:
            self._end_link(self._with_breaks(found))
        elif match["open"] or found == "]":
            self._words(found)
        elif match["run"]:
            self._run(match, text)
        else:
            self._add(
                Atom(self._with_breaks(found))
            )  # autolinks, comments, images, footnotes, ends of no link

    def _atom(self, markup: str, read: str, *, ordered: bool = False) -> None:
        markup = self._with_breaks(markup)
        self._add(Atom(markup, read if len(read) <= MAX_READ else "", ordered=ordered))

    def _push(self, mark: str, name: str) -> None:
        if len(self._stack) <= MAX_DEPTH:
            self._stack.append(_Open(mark, name))
        elif mark.startswith("<"):
            self._add(Atom(mark))
        else:
            self._words(mark)

    def _tag(self, tag: str) -> None:
        match = _TAG_NAME.match(tag)
        assert match is not None
        name = match[1].lower()
        if tag.startswith("</"):
            if not self._close(f"</{name}", tag):
                self._add(Atom(tag))
            elif name in KEPT_INLINE:
                pair = self._stack[-1].nodes.pop()
                assert isinstance(pair, Pair)
                self._add(Atom(raw([pair])))
        elif tag.endswith("/>") or name in ("br", "img", "wbr", "hr"):
            self._add(Atom(tag))
        else:
            self._push(tag, f"</{name}")

    def _end_link(self, found: str) -> None:
        if not self._close("[", found):  # too deep
            self._add(Atom(found))
        elif found == "]":
            pair = self._stack[-1].nodes.pop()
            self._add(Atom(raw([pair])))  # the label of a link

    def _run(self, match: re.Match[str], text: str) -> None:
        """A run of marks of emphasis: the end of what is open, a beginning, or signs."""
        mark = match[0]
        before, after = text[match.start() - 1 : match.start()], text[match.end() :][:1]
        left, right = _flanks(before, after), _flanks(after, before)
        if mark[0] == "*":  # a single one may be that of a product or a footnote: it opens nothing
            left = left or (mark == "**" and _is_hangul(before) and _is_sign(after))
            right = right or (_is_hangul(after) and _is_sign(before))
        if right and (mark[0] != "_" or not left or _is_sign(after) or _is_hangul(after)):
            mark = self._end_emphasis(mark)
        if not mark:
            return
        if left and (mark[0] != "_" or not right or _is_sign(before)):
            self._push(mark, mark if mark[0] == "~" else mark[0])
        else:
            self._words(mark)

    def _end_emphasis(self, mark: str) -> str:
        """Close what is open with this sign; the signs that are left."""
        if mark[0] == "~":
            return "" if self._close(mark, mark) else mark
        while mark and (depth := self._depth(mark[0])):
            self._demote(depth + 1)
            opened = self._stack[-1]
            used = mark[: min(2, len(mark), len(opened.mark))]
            pair = Pair(used, used, opened.nodes, flanking=True)
            opened.mark, opened.nodes = opened.mark[len(used) :], [pair]
            mark = mark[len(used) :]
            if not opened.mark:
                self._stack.pop()
                self._add(pair)
        return mark

    def _depth(self, name: str) -> int:
        """Where the last one with this other half is, within the same link; 0 if there is none."""
        for depth in range(len(self._stack) - 1, 0, -1):
            if self._stack[depth].name == name:
                return depth
            if self._stack[depth].name == "[":
                break
        return 0

    def _close(self, name: str, after: str) -> bool:
        """Whether something with this other half is open; what is open within becomes text."""
        depth = self._depth(name)
        if depth:
            self._demote(depth + 1)
            opened = self._stack.pop()
            flanking = not opened.mark.startswith("<")
            self._add(Pair(opened.mark, after, opened.nodes, flanking))
        return depth > 0

    def _demote(self, depth: int) -> None:
        """Make text of the marks from this depth on, and atoms of the tags."""
        while len(self._stack) > depth:
            opened = self._stack.pop()
            is_tag = opened.mark.startswith("<")
            self._add(Atom(opened.mark) if is_tag else Words(opened.mark, opened.mark))
            self._stack[-1].nodes += opened.nodes
