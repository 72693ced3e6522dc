"""HTML: what is between two block elements is one text, with the inline elements in it.

Tags, attributes, comments and entities of the markup stay as they are; within a text white space is
one space, as browsers show it. Not translated: `script`, `style`, `pre`, `textarea`, and every
element with `translate="no"` or the class `notranslate`. Of `code`, `kbd`, `samp` and `var`, and of
inline elements that are not translated, the model reads the content if it is short. What follows a
tag that does not end stays as it is. The time is linear in the length.
"""

import html
import re
from collections.abc import Callable, Iterator
from functools import partial

from jumok.documents.atoms import read_code
from jumok.documents.block import Block, Style, parts_of
from jumok.documents.nodes import Builder, Node, Pair

MAX_DEPTH = 16  # of inline elements; deeper ones end the text

TAG = re.compile(
    r"""<(?P<end>/?)(?P<name>[A-Za-z][^\s/>]*+)"""
    r"""(?P<rest>(?:[^>"'=]|=\s*+(?:"[^"]*"|'[^']*')?+|["'])*+)>"""
)
_INLINE = "a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark q s small span"
INLINE = frozenset(f"{_INLINE} strike strong sub sup time tt u".split())
KEPT_INLINE = frozenset(("code", "kbd", "samp", "var"))
_KEPT = KEPT_INLINE | {"pre", "textarea"}
_RAW = ("script", "style")  # whose content is not a text
_VOID_INLINE = frozenset(("img", "wbr"))
_VOID = ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "wbr")
_NO = re.compile(
    r"""\s(?:translate\s*=\s*["']?no["'\s/]|translate\s*=\s*no$"""
    r"""|class\s*=\s*(?:"[^"]*\bnotranslate\b|'[^']*\bnotranslate\b|notranslate\b))""",
    re.IGNORECASE,
)
_LINE_END = re.compile(  # with all the white space around it; ends as of `str.splitlines`
    r"((?<!\s)[ \t]*+[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]\s*+)"
)

_TAG_NAME = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z][\w-]*+)")
_ANY_TAG = r"</?[A-Za-z0-9][^<>]*+>|&(?:#?[A-Za-z0-9]{1,31}+);"  # and entities
_TAG_OR_BRACES = rf"{_ANY_TAG}|\{{\\[^{{}}]*+\}}"

STYLE = Style(partial(html.escape, quote=False), within_words=False)


def read(source: str) -> list[str | Block]:
    """The blocks of a page or a fragment, and the markup between them.

    >>> [part if isinstance(part, str) else part.text
    ...  for part in read('<p>안녕 &amp; <b title="a">잘 가</b></p>')]
    ['<p>', '안녕 & 잘 가', '</p>']
    """
    return _Reader(source).read()


class _Reader:
    def __init__(self, source: str) -> None:
        self._source = source
        self._parts: list[str | Block] = []
        self._builder = Builder(html.unescape)
        self._names: list[str] = []  # of the open inline elements
        self._kept = ""  # the name of the open element that is not translated
        self._depth = self._start = 0  # of it

    def read(self) -> list[str | Block]:
        """All parts."""
        position = 0
        for start, end, tag in markup(self._source):
            self._text(position, start)
            self._markup(start, end, tag)
            position = end
        self._text(position, len(self._source))
        if self._depth:
            self._break(self._source[self._start :])
        self._break("")
        return self._parts

    def _text(self, start: int, end: int) -> None:
        if not self._depth:
            _add_lines(self._builder, self._source[start:end])

    def _markup(self, start: int, end: int, tag: re.Match[str] | None) -> None:
        source = self._source[start:end]
        name = "" if tag is None else tag["name"].lower()
        if self._depth:
            if name == self._kept and tag is not None:
                self._depth += -1 if tag["end"] else 1
            if not self._depth:
                self._end_kept(end)
        elif tag is None:
            if source.startswith("<!--"):
                self._builder.atom(source)
            else:
                self._break(source)
        elif not tag["end"] and _stays(name, tag["rest"]):
            self._kept, self._depth, self._start = name, 1, start
        elif name in _VOID_INLINE and not tag["end"]:
            self._builder.atom(source)
        elif name in INLINE and not tag["rest"].endswith("/") and self._inline(tag):
            pass
        else:
            self._break(source)

    def _inline(self, tag: re.Match[str]) -> bool:
        """Whether a tag begins or ends an element within the text."""
        name = tag["name"].lower()
        if not tag["end"] and len(self._names) < MAX_DEPTH:
            self._names.append(name)
            self._builder.open(tag[0])
            return True
        if tag["end"] and self._names and self._names[-1] == name:
            self._names.pop()
            self._builder.close(tag[0])
            return True
        return False

    def _end_kept(self, end: int) -> None:
        source = self._source[self._start : end]
        if self._kept in INLINE or self._kept in KEPT_INLINE:
            content = html.unescape(re.sub("<[^>]*>", "", source))
            self._builder.atom(source, read_code(content) if self._kept in KEPT_INLINE else content)
        else:
            self._break(source)

    def _break(self, source: str) -> None:
        """End the text; `source` follows it."""
        self._parts += closed_parts(self._builder.nodes, len(self._names), STYLE)
        self._parts += [source] if source else []
        self._builder, self._names = Builder(html.unescape), []


def closed_parts(nodes: list[Node], n_open: int, style: Style) -> list[str | Block]:
    """The parts of a tree whose last pairs have no closing tag: these tags are not in a text."""
    if not n_open:
        return parts_of(nodes, style)
    pair = nodes[-1]
    assert isinstance(pair, Pair)
    inner = closed_parts(pair.children, n_open - 1, style)
    return [*parts_of(nodes[:-1], style), pair.before, *inner]


def _stays(name: str, rest: str) -> bool:
    """Whether the element that a tag opens stays as it is."""
    if name in _VOID or rest.endswith("/"):
        return False
    return name in _KEPT or _NO.search(rest) is not None


def markup(source: str) -> Iterator[tuple[int, int, re.Match[str] | None]]:
    """The start and end of each tag, comment and declaration, and the match of a tag."""
    position, last, quotes = 0, source.rfind(">"), True
    while (start := source.find("<", position)) >= 0:
        position = start + 1
        following = source[position : position + 1]
        tag = None
        if following in ("!", "?"):
            close = "-->" if source.startswith("<!--", start) else ">"
            position = _after(source, close, position)
        elif following == "/" or (following.isascii() and following.isalpha()):
            tag = TAG.match(source, start) if quotes and start < last else None
            quotes = quotes and tag is not None  # otherwise all ">" after it are in quotes
            position = _after(source, ">", start) if tag is None else tag.end()
            if tag is not None and tag["name"].lower() in _RAW and not tag["end"]:
                closing = re.compile(f"</{tag['name']}", re.IGNORECASE).search(source, position)
                position, tag = (len(source) if closing is None else closing.start()), None
        else:
            continue  # a sign of the text
        yield start, position, tag


def _after(source: str, close: str, start: int) -> int:
    """The end of what `close` ends; the end of the source if nothing does."""
    found = source.find(close, start)
    return len(source) if found < 0 else found + len(close)


def inline_parts(
    text: str, style: Style, unescape: Callable[[str], str], *, braces: bool = False
) -> list[str | Block]:
    """The parts of a text of another format with tags in it, as messages and subtitles have.

    Every tag may be in a text, whatever its name; those without their other half are atoms. With
    `braces` what is between them is an atom too.

    >>> [part.text for part in inline_parts("<i>겨울<br>", Style(), str) if isinstance(part, Block)]
    ['겨울']
    """
    tags = list(re.finditer(_TAG_OR_BRACES if braces else _ANY_TAG, text))
    closes = _matching([tag[0] for tag in tags])
    builder, position = Builder(unescape), 0
    for number, tag in enumerate(tags):
        _add_lines(builder, text[position : tag.start()])
        position = tag.end()
        if number not in closes:
            builder.atom(tag[0], html.unescape(tag[0]) if tag[0][0] == "&" else "")
        elif closes[number]:
            builder.close(tag[0])
        else:
            builder.open(tag[0])
    _add_lines(builder, text[position:])
    return parts_of(builder.nodes, style)


def _add_lines(builder: Builder, text: str) -> None:
    for number, part in enumerate(_LINE_END.split(text)):
        if number % 2:
            builder.line_break(part)
        elif part:
            builder.words(part)


def _matching(tags: list[str]) -> dict[int, bool]:
    """The tags with their other half, by number, and whether they close; the rest is left out.

    >>> _matching(["<b>", "<i>", "</b>", "<br>"])
    {0: False, 2: True}
    """
    found: dict[int, bool] = {}
    opened: list[tuple[str, int]] = []
    for number, tag in enumerate(tags):
        name = _TAG_NAME.match(tag)
        if name is None or tag.endswith("/>"):
            continue
        if not name["end"]:
            opened.append((name["name"].lower(), number))
            continue
        for depth in range(len(opened) - 1, max(len(opened) - 1 - MAX_DEPTH, -1), -1):
            if opened[depth][0] == name["name"].lower():
                found |= {opened[depth][1]: False, number: True}
                del opened[depth:]
                break
    return dict(sorted(found.items()))
