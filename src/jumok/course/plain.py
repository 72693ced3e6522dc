"""Prose of a lesson as plain Markdown, for notebooks and terminals: no roles, boxes as quotes."""

import re

from jumok.course.lesson import Language

NOTE = {"ko": "노트", "en": "Note"}
LESSON = {"ko": "{}강", "en": "lesson {}"}
ROLE = re.compile(r"\{(jumok|note|lesson)\}`([^`]+)`")
_BOX = re.compile(r"^:::+\{(?:admonition|hint|note|tip|warning)\} *(.*)$")
_BOX_TITLES = {"ko": "힌트", "en": "Hint"}


class PlainMarkdown:
    r"""Converts the parts of one lesson in order: a box may contain cells and continue after them.

    >>> PlainMarkdown("en").convert(":::{admonition} A slip\nsee {jumok}`nn.sinusoids`\n:::\nOn")
    '> **A slip**\n>\n> see `jumok.nn.sinusoids`\n\nOn'
    """

    def __init__(self, language: Language) -> None:
        self.language: Language = language
        self._in_box = False

    def convert(self, markdown: str) -> str:
        """MyST Markdown -> CommonMark."""
        lines: list[str] = []
        for line in markdown.splitlines():
            if found := _BOX.match(line):
                self._in_box = True
                lines += [f"> **{found[1] or _BOX_TITLES[self.language]}**", ">"]
            elif re.fullmatch(r":::+", line):
                self._in_box = False
                lines.append("")
            elif re.fullmatch(r":\w+:.*", line):  # an option of a box
                continue
            else:
                lines.append(f"> {line}".rstrip() if self._in_box else line)
        return re.sub(r"\n{3,}", "\n\n", ROLE.sub(self._role, "\n".join(lines))).strip("\n")

    def _role(self, found: re.Match[str]) -> str:
        kind, target = found.groups()
        if kind == "jumok":
            return f"`jumok.{target}`"
        if kind == "note":
            return f"{NOTE[self.language]} {target}"
        return LESSON[self.language].format(int(target))
