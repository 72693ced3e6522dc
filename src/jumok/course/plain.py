"""Prose of a lesson as plain Markdown, for notebooks and terminals: no roles, boxes as quotes.

A terminal has no mathematics either: `readable_math` writes it with letters and symbols.
"""

import re

from jumok.course.lesson import Language

NOTE = {"ko": "노트", "en": "Note"}
LESSON = {"ko": "{}강", "en": "lesson {}"}
ROLE = re.compile(r"\{(jumok|note|lesson)\}`([^`]+)`")
_MATH = re.compile(r"\$\$(.+?)\$\$|\$([^$\n]+)\$", re.DOTALL)
_SYMBOLS = {
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "epsilon": "ε",
    "mu": "μ",
    "sigma": "σ",
    "times": "×",
    "approx": "≈",
    "infty": "∞",
    "top": "T",
    "qquad": "",
}
_DROPPED = re.compile(r"\\(?:left|right|mathrm)(?![a-z])|\\!")
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


def readable_math(markdown: str) -> str:
    r"""Markdown whose mathematics is text: fractions and roots on one line.

    >>> print(readable_math(r"$\frac{QK^\top}{\sqrt{d_k}}$ of $-\infty$ and $W_{1}$"))
    QKᵀ / √d\_k of -∞ and W\_1
    """
    return _MATH.sub(lambda found: _formula(found[1] or found[2]), markdown)


def _formula(latex: str) -> str:
    """The text of a formula, with marks of Markdown escaped."""
    text = _DROPPED.sub("", latex)
    text = re.sub(r"\\[,; ]", " ", text)
    text = re.sub(r"\{(\w+)\}", r"{\1}", text)
    before = None
    while text != before:  # the innermost braces first
        before = text
        text = re.sub(r"\\sqrt\{([^{}]*)\}", lambda found: f"√{_grouped(found[1])}", text)
        text = re.sub(
            r"\\frac\{([^{}]*)\}\{([^{}]*)\}",
            lambda found: f"{_grouped(found[1])} / {_grouped(found[2])}",
            text,
        )
        text = re.sub(r"([_^])\{([^{}]*)\}", lambda found: found[1] + _grouped(found[2]), text)
        text = re.sub(r"(?<![_^a-z}])\{([^{}]*)\}", r"\1", text)
    text = re.sub(r"\\([a-z]+)", lambda found: _SYMBOLS.get(found[1], found[1]), text)
    text = text.replace("^T", "ᵀ").replace("^2", "²")
    return re.sub(r"([_*])", r"\\\1", " ".join(text.split()))


def _grouped(text: str) -> str:
    """In parentheses, unless it is one name, number or root, or has parentheses."""
    plain = re.sub(r"\\[a-z]+|[_^√]", "", text)
    single = not plain or plain.isalnum() or (plain[0], plain[-1]) == ("(", ")")
    return text if single else f"({text})"
