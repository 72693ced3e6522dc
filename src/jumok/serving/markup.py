"""HTML as markup, which is kept, and texts, which are translated one by one.

Every text between two tags is translated by itself. White space around it is kept; within it, it
is one space, as browsers show it. Tags, attributes, comments, code and elements with
`translate="no"` or the class `notranslate` stay as they are, and so does what follows a tag that
does not end. The time is linear in the length.
"""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_TAG = re.compile(
    r"""<(?P<end>/?)(?P<name>[A-Za-z][^\s/>]*+)"""
    r"""(?P<rest>(?:[^>"'=]|=\s*+(?:"[^"]*"|'[^']*')?+|["'])*+)>"""
)
_RAW = ("script", "style")  # whose content is not a text
_KEPT = ("code", "kbd", "pre", "samp", "var")
_VOID = ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "wbr")
_NO = re.compile(
    r"""\s(?:translate\s*=\s*["']?no["'\s/]|translate\s*=\s*no$"""
    r"""|class\s*=\s*(?:"[^"]*\bnotranslate\b|'[^']*\bnotranslate\b|notranslate\b))""",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Markup:
    """A fragment of HTML: markup before, between and after the texts.

    >>> found = Markup.split('<p>안녕 &amp; <b title="a">잘 가</b></p>')
    >>> found.texts
    ['안녕 &', '잘 가']
    >>> found.join(["Hello & more", "Bye"])
    '<p>Hello &amp; more <b title="a">Bye</b></p>'
    """

    between: Sequence[str]  # one more than texts
    texts: Sequence[str]

    @classmethod
    def split(cls, source: str) -> "Markup":
        """The markup and the texts of a fragment."""
        between: list[list[str]] = [[]]
        texts = []
        for part, is_text in _parts(source):
            text = html.unescape(part) if is_text else ""
            if not any(map(str.isalpha, text)):
                between[-1].append(part)
                continue
            content = part.strip()
            start = part.index(content)
            between[-1].append(part[:start])
            texts.append(" ".join(html.unescape(content).split()))
            between.append([part[start + len(content) :]])
        return cls(["".join(parts) for parts in between], texts)

    def join(self, texts: Sequence[str]) -> str:
        """The fragment with other texts."""
        found = [self.between[0]]
        for text, after in zip(texts, self.between[1:], strict=True):
            found += [html.escape(text, quote=False), after]
        return "".join(found)


def _parts(source: str) -> Iterator[tuple[str, bool]]:
    """The parts of a fragment in order, and whether each is a text to translate."""
    kept, depth = "", 0  # the open element that stays as it is
    position = 0
    for start, end, tag in _markup(source):
        yield source[position:start], not depth
        yield source[start:end], False
        position = end
        name = "" if tag is None else tag["name"].lower()
        if depth:
            depth += 0 if name != kept else -1 if tag and tag["end"] else 1
        elif tag is not None and not tag["end"] and _stays(name, tag["rest"]):
            kept, depth = name, 1
    yield source[position:], not depth


def _stays(name: str, rest: str) -> bool:
    """Whether the element that a tag opens stays as it is."""
    if name in _VOID or rest.endswith("/"):
        return False
    return name in _KEPT or _NO.search(rest) is not None


def _markup(source: str) -> Iterator[tuple[int, int, re.Match[str] | None]]:
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
            tag = _TAG.match(source, start) if quotes and start < last else None
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
