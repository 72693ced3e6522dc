"""Markdown (CommonMark with tables): a paragraph, heading, item or cell is one text.

Not translated: front matter, code, fenced and indented code, HTML blocks of `pre` and the like,
addresses, titles and labels of links, images. A paragraph keeps its number of lines.
"""

import re
from collections.abc import Iterator, Sequence

from jumok.documents import html
from jumok.documents.block import Block, parts_of
from jumok.documents.markdown_inline import STYLE, inline_nodes
from jumok.documents.plain import split_lines

_PREFIX = re.compile(  # quotes, marks of lists, boxes of tasks
    r"(?P<quote>(?:[ ]{0,3}>[ ]?)*)(?P<indent>[ \t]*)"
    r"(?P<mark>(?:(?:[-+*]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?)*)"
)
_FENCE = re.compile(r"(?P<fence>`{3,}|~{3,})(?P<info>.*)\Z", re.DOTALL)
_HEADING = re.compile(r"(#{1,6}[ \t]+)(.*?)([ \t]*#*[ \t]*)\Z", re.DOTALL)
_BREAK = re.compile(r"(?:[-_*][ \t]*){3,}\Z|=+[ \t]*\Z|-+[ \t]*\Z")
_TABLE_RULE = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*\Z")
_DEFINITION = re.compile(r"\[([^\]\n]+)\]:")
_HTML = re.compile(r"<(?:[!?]|/?([A-Za-z][\w-]*))")
_COMMENT_END = {"<!--": "-->", "<?": "?>"}
_CELL_END = re.compile(r"(?<!\\)\|")
_DIRECTIVE = re.compile(r":::|%%|\{%|\{\{[%<]|!!!|\[!|\[TOC\]|\\\[|\$\$")  # of common extensions

Line = tuple[str, str]  # with its end


def read(source: str) -> list[str | Block]:
    r"""The blocks of a Markdown file, and what is between them.

    >>> [part if isinstance(part, str) else part.text
    ...  for part in read("# 제목\n\n- 겨울은 **추워요**\n")]
    ['# ', '제목', '\n', '\n', '- ', '겨울은 추워요', '\n']
    """
    return _Reader(list(split_lines(source))).read()


class _Reader:
    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines
        self._parts: list[str | Block] = []
        self._paragraph: list[tuple[str, str, str]] = []  # prefix, text and end of its lines
        self._in_list = False
        found = (_DEFINITION.match(line.lstrip(" >")) for line, _ in lines)
        self._labels = frozenset(match[1].lower() for match in found if match)

    def read(self) -> list[str | Block]:
        """All parts."""
        at = _front_matter(self._lines)
        self._keep(0, at)
        while at < len(self._lines):
            at = self._line(at)
        self._end_paragraph()
        return [part for part in self._parts if part != ""]

    def _line(self, at: int) -> int:
        """Read a line, and what belongs to it; the number of the next one."""
        line, end = self._lines[at]
        match = _PREFIX.match(line)
        assert match is not None  # it may be empty
        prefix, text = match[0], line[match.end() :]
        if not text.strip():
            self._end_paragraph()
            self._in_list = self._in_list or bool(match["mark"])
            self._parts += [line, end]
            return at + 1
        width = len(match["indent"].expandtabs(4))
        self._in_list = bool(match["mark"]) or (self._in_list and width > 0)
        if self._is_indented_code(width, match["mark"]):
            return self._keep(at, at + 1)
        if (fence := _FENCE.match(text)) and "`" not in fence["info"][:1]:
            return self._keep(at, self._end_of_fence(at, fence["fence"]))
        if match["mark"] or _is_other_quote(match["quote"], self._paragraph):
            self._end_paragraph()
        if _BREAK.match(line[len(match["quote"]) :].strip()) or _TABLE_RULE.match(text):
            return self._keep(at, at + 1)
        if not self._paragraph and (_DEFINITION.match(text) or _DIRECTIVE.match(text)):
            return self._keep(at, at + 1)
        if not self._paragraph and (tag := _HTML.match(text)) and not _is_inline(tag[1]):
            return self._html(at)
        if heading := _HEADING.match(text):
            self._end_paragraph()
            self._parts += [prefix, heading[1], *self._texts(heading[2]), heading[3], end]
            return at + 1
        if text.startswith("|") or self._is_table_head(at):
            return self._table(at, prefix, text, end)
        if text.endswith(("  ", "\\")):  # a hard line break
            kept = text.rstrip().removesuffix("\\")
            self._paragraph.append((prefix, kept, text[len(kept) :] + end))
            self._end_paragraph()
        else:
            self._paragraph.append((prefix, text, end))
        return at + 1

    def _is_indented_code(self, width: int, mark: str) -> bool:
        return width >= 4 and not self._paragraph and not (self._in_list or mark)

    def _is_table_head(self, at: int) -> bool:
        """Whether the next line is the rule of a table with several columns."""
        if at + 1 == len(self._lines) or "|" not in self._lines[at][0]:
            return False
        rule = self._lines[at + 1][0].strip()
        return "|" in rule and _TABLE_RULE.match(rule) is not None

    def _table(self, at: int, prefix: str, text: str, end: str) -> int:
        self._end_paragraph()
        while True:
            self._parts += [prefix, *self._cells(text), end]
            at += 1
            if at == len(self._lines):
                return at
            line, end = self._lines[at]
            match = _PREFIX.match(line)
            assert match is not None
            prefix, text = match[0], line[match.end() :]
            if "|" not in text or match["mark"]:
                return at
            if _TABLE_RULE.match(text):
                self._parts += [line, end]
                prefix, text, end = "", "", ""

    def _html(self, at: int) -> int:
        """Keep or read a block of HTML, which ends at a blank line, or where its element does."""
        first = self._lines[at][0].lstrip(" >")
        close = next((end for start, end in _COMMENT_END.items() if first.startswith(start)), "")
        name = _HTML.match(first)
        if name and name[1] and name[1].lower() in ("script", "style", "pre", "textarea"):
            close = f"</{name[1].lower()}>"
        end = at
        while end < len(self._lines) and (close or self._lines[end][0].strip()):
            end += 1
            if close and close in self._lines[end - 1][0].lower():
                break
        self._end_paragraph()
        self._parts += html.read("".join(line + end for line, end in self._lines[at:end]))
        return end

    def _end_of_fence(self, at: int, fence: str) -> int:
        closing = re.compile(rf"[\s>]*{re.escape(fence)}{fence[0]}*\s*\Z")
        for number in range(at + 1, len(self._lines)):
            if closing.match(self._lines[number][0]):
                return number + 1
        return len(self._lines)

    def _keep(self, start: int, end: int) -> int:
        """Lines that stay as they are; the number of the next one."""
        self._end_paragraph()
        for line, line_end in self._lines[start:end]:
            self._parts += [line, line_end]
        return end

    def _end_paragraph(self) -> None:
        """Add the paragraph so far; a line that continues it begins with its prefix."""
        if not self._paragraph:
            return
        first, *others = self._paragraph
        texts, breaks = [first[1]], []
        for (_, _, end), (prefix, text, _) in zip(self._paragraph, others, strict=False):
            breaks.append(end + prefix)
            texts.append(text)
        self._parts += [first[0], *self._texts(*texts, breaks=breaks), self._paragraph[-1][2]]
        self._paragraph = []

    def _texts(self, *lines: str, breaks: Sequence[str] = ()) -> list[str | Block]:
        return parts_of(inline_nodes(lines, breaks, self._labels), STYLE)

    def _cells(self, text: str) -> Iterator[str | Block]:
        """The cells of a row, and the lines between them; those within code have a backslash."""
        position = 0
        for end in [*_CELL_END.finditer(text), None]:
            yield from self._texts(text[position : len(text) if end is None else end.start()])
            if end is not None:
                yield "|"
                position = end.end()


def _front_matter(lines: Sequence[Line]) -> int:
    """The number of lines of front matter, of YAML or TOML; 0 for none."""
    mark = lines[0][0].rstrip() if lines else ""
    if mark not in ("---", "+++"):
        return 0
    ends = (number for number in range(1, len(lines)) if lines[number][0].rstrip() == mark)
    return next(ends, -1) + 1


def _is_other_quote(quote: str, paragraph: Sequence[tuple[str, str, str]]) -> bool:
    """Whether a line is in another quotation than the paragraph before it."""
    return bool(paragraph) and quote.count(">") != paragraph[-1][0].count(">")


def _is_inline(name: str | None) -> bool:
    """Whether a line that begins with this tag is a paragraph."""
    return name is not None and name.lower() in html.INLINE | html.KEPT_INLINE | {"br", "img"}
