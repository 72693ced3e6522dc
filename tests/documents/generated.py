"""Generated documents, and what a translation of them must have kept.

The checks read documents in their own way: with html.parser, markdown-it and regular expressions.
"""

import html
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from html.parser import HTMLParser

from markdown_it import MarkdownIt

from jumok.data.note_sentences import generate

FORMATS = ("html", "markdown", "po", "srt", "vtt", "text", "wrapped")
PLACEHOLDERS = ("%s", "%d", "%(name)s", "%1$s", "{name}", "{0}", "{}", "$HOME", "${USER}", "%%")
ADDRESSES = (
    "https://example.org/a?b=c&d=1#e",
    "http://한글.example.org/x_y_(z)",
    "me@example.org",
    "https://docs.example.org/ko/a/very/long/path/that/no/model/reads.html",
)
CODE = ("go()", "a < b", "x", "pip install jumok", "가나다", "a|b", "**kwargs", "a. B. c")
ODD = (
    *("", " ", "\t", "123", "—", "🙂", "ㅋㅋㅋ", "&", "<", ">", "*", "_", "`", "[", "]", "|", "#"),
    *("\\", "1.", "-", "가나\u1100\u1161", "\u00a0", "\u200b", "<3", "a_b", "2 * 3", "~", "{", "%"),
)
SYMBOLS = ("♪", "→", "★★★", "※", "👍🏻", "□", "©")
ENDS = ("\n", "\r\n")

_ATOMS = re.compile(
    "|".join(map(re.escape, sorted(ADDRESSES, key=len, reverse=True)))
    + r"|%\(\w+\)s|%\d\$s|%[sd%]|\{\w*\}|\$\{?[A-Z]+\}?"
)


class Generator:
    """Makes documents from a seed."""

    def __init__(self, seed: int, words: Sequence[str]) -> None:
        self.random, self._words = random.Random(seed), words
        self.end = self.random.choice(ENDS)

    def make(self, kind: str) -> str:
        """A document of a format."""
        makers: dict[str, Callable[[], str]] = {
            "html": self.page,
            "markdown": self.markdown,
            "po": self.po,
            "srt": lambda: self.subtitles(","),
            "vtt": lambda: (
                f"WEBVTT{self.end * 2}NOTE 적어 둔 말{self.end * 2}{self.subtitles('.')}"
            ),
            "text": self.text,
            "wrapped": self.text,
        }
        return makers[kind]()

    def _some(self, low: int, high: int) -> range:
        return range(self.random.randint(low, high))

    def _chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def phrase(self, *, odd: float = 0.1, atoms: float = 0.15) -> str:
        """Some words, with odd ones, placeholders and addresses among them."""
        words = []
        for word in self.random.choice(self._words).split():
            words.append(word)
            if self._chance(odd):
                words.append(self.random.choice(ODD))
            if self._chance(atoms):
                words.append(self.random.choice(PLACEHOLDERS + ADDRESSES))
            if self._chance(odd / 2):
                words.append(self.random.choice(SYMBOLS))
        return " ".join(words)

    # HTML

    def page(self) -> str:
        """Elements within each other, with attributes, comments, code and what is not closed."""
        parts = ["<!DOCTYPE html>" if self._chance(0.2) else ""]
        parts += [self._element(3) for _ in self._some(1, 5)]
        if self._chance(0.1):
            parts.append(self.random.choice(("</b>", "<i>", "</p>", "<p", "<!-- 끝", "</x>")))
        return self.end.join(parts)

    def _inline_html(self, depth: int) -> str:
        kind = self.random.random()
        escaped = self.phrase(odd=0.1).replace("&", "&amp;").replace("<", "&lt;")
        if self._chance(0.2):
            space = self.random.choice(("&nbsp;", "&nbsp; ", "\u00a0", "&#8195;", " &copy; "))
            escaped = escaped.replace(" ", space, 1)
        if depth == 0 or kind < 0.4:
            return escaped
        if kind < 0.5:
            code = self.random.choice(CODE).replace("<", "&lt;")
            return f"<code>{code}</code>"
        if kind < 0.55:
            return self.random.choice(('<img src="가.png" alt=x>', "<wbr>", "<br/>", "<!-- 말 -->"))
        if kind < 0.6:
            return f'<span translate="no">{self.phrase(atoms=0, odd=0)}</span>'
        name = self.random.choice(("b", "i", "em", "strong", "a", "span", "u"))
        attributes = " href=\"https://a.kr/?x=1&amp;y=2\" title='a>b'" if name == "a" else ""
        inner = " ".join(self._inline_html(depth - 1) for _ in self._some(0, 3))
        glue = self.random.choice(("", " ", "에서 "))  # within a word
        return f"<{name}{attributes}>{inner}{glue}</{name}>{glue}"

    def _element(self, depth: int) -> str:
        kind = self.random.random()
        if depth and kind < 0.3:
            inner = self.end.join(self._element(depth - 1) for _ in self._some(0, 3))
            name = self.random.choice(("div", "ul", "section", "blockquote"))
            return f'<{name} class="a b">{inner}</{name}>'
        if kind < 0.36:
            return f"<script>if (a<b) '{self.phrase()}' && \"</p>\"</script>"
        if kind < 0.42:
            return f"<pre>{self.end}  {self.phrase(odd=0, atoms=0)}</pre>"
        if kind < 0.46:
            return "<style>p > b { color: red }</style>"
        name = self.random.choice(("p", "li", "h1", "td", "p translate=no"))
        inner = self.random.choice((" ", self.end, "")).join(
            self._inline_html(2) for _ in self._some(1, 4)
        )
        return f"<{name}>{inner}</{name.split()[0]}>"

    # Markdown

    def _inline_markdown(self, depth: int = 2, *, emphasis: bool = True) -> str:
        kind = self.random.random() * (1 if emphasis else 0.88)
        if depth == 0 or kind < 0.5:
            return self.phrase(odd=0.02 if depth == 2 else 0)  # signs change where marks end
        if kind < 0.6:
            code = self.random.choice(CODE).replace("|", "/")
            return self.random.choice((f"`{code}`", f"`{code}`를", f"`` `{code}` ``"))
        if kind < 0.62:
            return f"{self.phrase(odd=0)}&nbsp;날씨 &rarr; {self.random.choice(SYMBOLS)}"
        emphasized = kind >= 0.88
        parts = [
            self._inline_markdown(depth - 1, emphasis=not emphasized) for _ in self._some(1, 2)
        ]
        inner = " ".join([*parts, "끝"])
        if kind < 0.7:
            return f"[{inner}](https://a.kr/x_(y)?z=1 '제목')"
        if kind < 0.77:
            return f"[{inner}][글]"
        if kind < 0.83:
            return self.random.choice(("![그림](a.png)", "<https://a.kr/가>", "[^1]", "<br>"))
        if kind < 0.88:
            return f"<u>{inner}</u>"
        mark = self.random.choice(("*", "**", "***", "_", "__"))
        particle = "" if "_" in mark else self.random.choice(("", "", "에서", "을"))
        return f"{mark}{inner}{mark}{particle}"

    def _markdown_line(self) -> str:
        return " ".join(self._inline_markdown() for _ in self._some(1, 3)).strip()

    def markdown(self) -> str:
        """Paragraphs, lists, quotes, tables, code, front matter and definitions."""
        blocks = []
        if self._chance(0.2):
            blocks.append(f"---{self.end}title: {self.phrase()}{self.end}---")
        blocks += [self._markdown_block() for _ in self._some(1, 7)]
        blocks.append("[글]: https://a.kr/글 '제목'")
        return (self.end * 2).join(blocks) + self.random.choice(("", self.end))

    def _markdown_block(self) -> str:
        kind, end = self.random.random(), self.end
        if kind < 0.3:
            return end.join("가 " + self._markdown_line() for _ in self._some(1, 4))
        if kind < 0.4:
            return f"{'#' * self.random.randint(1, 6)} {self._markdown_line()}"
        if kind < 0.55:
            mark = self.random.choice(("-", "*", "1."))
            lines = [f"{mark} 나 {self._markdown_line()}" for _ in self._some(1, 4)]
            if self._chance(0.3):
                lines.append(f"  - [ ] {self.phrase(odd=0)}")
            return end.join(lines)
        if kind < 0.65:
            return end.join(f"> 다 {self._markdown_line()}" for _ in self._some(1, 3))
        if kind < 0.75:
            fence = self.random.choice(("```", "~~~~"))
            return f"{fence}python{end}{self.phrase()}{end}{end}# {self.phrase()}{end}{fence}"
        if kind < 0.85:
            rows = [
                f"| {self.phrase(odd=0)} | {self._inline_markdown(1)} |" for _ in self._some(1, 3)
            ]
            return end.join(["| 가 | 나 |", "|---|:-:|", *rows])
        if kind < 0.9:
            return f"    {self.phrase()}{end}    {self.phrase()}"
        if kind < 0.95:
            return f"<div>{end}{self._inline_html(1)}{end}</div>"
        return "---"

    # gettext

    def po(self) -> str:
        """Messages with contexts, plural forms, references, and finished ones."""
        entries = ['msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"']
        for number in self._some(1, 6):
            lines = [f"#: a.c:{number}"]
            if self._chance(0.2):
                lines += ["#, c-format", f'msgctxt "문맥 {number}"']
            lines += self._string("msgid")
            if self._chance(0.2):
                lines += [*self._string("msgid_plural"), 'msgstr[0] ""', 'msgstr[1] ""']
            elif self._chance(0.2):
                lines += self._string("msgstr")
            else:
                lines.append('msgstr ""')
            if self._chance(0.1):
                lines = [f"#~ {line}" for line in lines]
            entries.append("\n".join(lines))
        return "\n\n".join(entries).replace("\n", self.end) + self.end

    def _string(self, key: str) -> list[str]:
        text = self.phrase()
        if self._chance(0.3):
            text = text.replace(" ", " <b>", 1) + "</b>"
        text = text.replace("\\", "\\\\").replace('"', '\\"')
        if self._chance(0.2):
            text += "\\n"
        if self._chance(0.3):
            half = len(text) // 2
            while text[half - 1] == "\\":
                half -= 1
            return [f'{key} ""', f'"{text[:half]}"', f'"{text[half:]}"']
        return [f'{key} "{text}"']

    # subtitles

    def subtitles(self, point: str) -> str:
        """Cues of one to three lines, with tags, positions and speakers."""
        cues = []
        for number in self._some(1, 8):
            lines = [self.phrase(odd=0.05, atoms=0.02).strip() or "가" for _ in self._some(1, 3)]
            if self._chance(0.3):
                lines = [f"<i>{lines[0]}", *lines[1:]]
                lines[-1] += "</i>"
            if self._chance(0.2):
                lines = [f"- {line}" for line in lines]
            if self._chance(0.1):
                lines[0] = "{\\an8}" + lines[0]
            times = f"00:00:{number:02}{point}000 --> 00:00:{number:02}{point}900"
            cues.append("\n".join([str(number + 1), times, *lines]))
        return "\n\n".join(cues).replace("\n", self.end) + self.end

    # text

    def text(self) -> str:
        """Lines of all kinds: blank, indented, with marks, without a letter, with other ends."""
        lines = []
        for _ in self._some(0, 12):
            kind = self.random.random()
            if kind < 0.25:
                lines.append(self.random.choice(("", "  ", "\t", "\u3000")))
            elif kind < 0.4:
                lines.append("".join(self.random.choices(ODD, k=self.random.randint(1, 4))))
            else:
                indent = self.random.choice(("", "", "  ", "\t", "- ", "1. ", "> ", "  * "))
                lines.append(indent + self.phrase() + self.random.choice(("", " ", "  ")))
        ends = (self.end,) if self._chance(0.8) else ("\n", "\r\n", "\r", "\u2028", "\x0b", "\x0c")
        text = "".join(line + self.random.choice(ends) for line in lines)
        return text if self._chance(0.5) else text.rstrip("\r\n")


def words() -> list[str]:
    """Sentences that the model `note` was made for."""
    return [source for source, _ in generate("test", 200)]


# what must be kept


def atoms(text: str) -> Counter[str]:
    """The placeholders and addresses of a text."""
    return Counter(_ATOMS.findall(text.replace("&amp;", "&")))


def signs(text: str) -> Counter[str]:
    """The symbols, and the spaces that are not ASCII, of a text and its entities."""
    return Counter(
        sign
        for sign in html.unescape(text)
        if sign == "\u00a0" or sign == "\u2003" or sign in "".join(SYMBOLS) or sign == "🙂"
    )


def check_atoms(source: str, output: str) -> None:
    """The same placeholders, addresses and signs."""
    for find in (atoms, signs):
        before, after = find(source), find(output)
        assert before == after, (before - after, after - before)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.tags: list[str] = []
        self.kept: list[str] = []
        self.open: list[str] = []
        self.unbalanced = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(self.get_starttag_text() or "")
        if tag not in ("img", "br", "wbr", "hr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"</{tag}>")
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            self.unbalanced += 1

    def handle_data(self, data: str) -> None:
        if set(self.open) & {"code", "pre", "script", "style"}:
            self.kept.append(data)

    def handle_entityref(self, name: str) -> None:
        if set(self.open) & {"code", "pre"}:
            self.kept.append(f"&{name};")

    def handle_comment(self, data: str) -> None:
        self.kept.append(data)


def read_tags(source: str) -> _Tags:
    """The tags of HTML, and the content of those that are not translated."""
    parser = _Tags()
    parser.feed(source)
    parser.close()
    return parser


def check_html(source: str, output: str) -> None:
    """Tags, their balance, code and atoms."""
    before, after = read_tags(source), read_tags(output)
    assert Counter(after.tags) == Counter(before.tags)
    assert (after.unbalanced, Counter(after.open)) == (before.unbalanced, Counter(before.open))
    assert Counter(after.kept) == Counter(before.kept)
    check_atoms(source, output)


_MARKDOWN = MarkdownIt("commonmark").enable("table")


def markdown_kept(source: str) -> Counter[str]:
    """What the parser of markdown-it finds besides text, with addresses and code."""
    found: Counter[str] = Counter()
    for block in _MARKDOWN.parse(source):
        if block.type in ("fence", "code_block"):
            found[f"{block.type} {block.content}"] += 1
        elif block.type == "html_block":
            found.update(re.findall("<[^>]+>", block.content))
        elif block.type != "inline":
            found[f"{block.type} {block.tag}"] += 1
        for token in block.children or ():
            if token.type in ("code_inline", "html_inline"):
                found[f"{token.type} {token.content}"] += 1
            elif token.type not in ("text", "softbreak", "text_special"):
                found[f"{token.type} {token.attrs}"] += 1
    return found


def check_markdown(source: str, output: str) -> None:
    """Lines, blocks, links, code, marks and atoms."""
    check_lines(source, output)
    a, b = markdown_kept(source), markdown_kept(output)
    assert a == b, (a - b, b - a)
    check_atoms(source, output)
    for mark in ("[^1]", "![그림](a.png)", "](", "<u>", "</u>"):
        assert output.count(mark) == source.count(mark)


def check_po(source: str, output: str) -> None:
    """All lines but the filled ones, and of these placeholders in order, tags and line ends."""
    before, after = source.splitlines(), output.splitlines()
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        if old != new:
            assert re.fullmatch(r'msgstr(\[\d\])? ""', old)
            assert re.fullmatch(r'msgstr(\[\d\])? "(?:[^"\\]|\\.)*"', new)
    for old_entry, new_entry in zip(_entries(source), _entries(output), strict=True):
        for form, text in new_entry.items():
            if not form.startswith("msgstr") or old_entry[form] or not text:
                continue
            plural = form not in ("msgstr", "msgstr[0]")
            message = old_entry["msgid_plural"] if plural else old_entry["msgid"]
            for pattern in (r"%[sd]", r"\{\}"):
                assert re.findall(pattern, text) == re.findall(pattern, message)
            check_atoms(message, text)
            assert re.findall("</?b>", text) == re.findall("</?b>", message)
            assert text.endswith("\\n") == message.endswith("\\n")


def _entries(source: str) -> list[dict[str, str]]:
    """The strings of each entry by keyword."""
    found = []
    for entry in re.split(r"(?:\r?\n){2}", source)[1:]:
        strings: dict[str, str] = {}
        key = ""
        for line in entry.splitlines():
            match = re.fullmatch(r'(?:(\w+(?:\[\d\])?) )?"(.*)"', line)
            if match:
                key = match[1] or key
                strings[key] = strings.get(key, "") + match[2]
        found.append(strings)
    return found


def check_subtitles(source: str, output: str) -> None:
    """Numbers, times and blank lines, and the tags and lines of each cue."""
    check_lines(source, output)
    cues = [re.split(r"(?:\r?\n){2}", text) for text in (source, output)]
    for old, new in zip(*cues, strict=True):
        kept = [[line for line in cue.splitlines() if "-->" in line] for cue in (old, new)]
        assert kept[0] == kept[1]
        marks = [re.findall(r"</?i>|\{\\an8\}", cue) for cue in (old, new)]
        assert marks[0] == marks[1] if "- " not in old else Counter(marks[0]) == Counter(marks[1])
        check_atoms(old, new)


def check_lines(source: str, output: str) -> None:
    """The same number of lines, with the same ends, and the same of them blank."""
    before, after = source.splitlines(keepends=True), output.splitlines(keepends=True)
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        assert bool(old.strip()) == bool(new.strip())
        if not old.strip():
            assert old == new
        assert old[len(old.rstrip("\r\n")) :] == new[len(new.rstrip("\r\n")) :]


def check_text(source: str, output: str) -> None:
    """Lines, their indentation, and atoms."""
    check_lines(source, output)
    for old, new in zip(source.splitlines(), output.splitlines(), strict=True):
        indent = re.match(r"\s*(?:(?:[-*>]|\d\.)\s+)?", old)
        assert indent is not None
        assert new.startswith(indent[0])
    check_atoms(source, output)


CHECKS: dict[str, Callable[[str, str], None]] = {
    "html": check_html,
    "markdown": check_markdown,
    "po": check_po,
    "srt": check_subtitles,
    "vtt": check_subtitles,
    "text": check_text,
    "wrapped": check_text,
}
