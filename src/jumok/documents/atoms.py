"""Placeholders, addresses and code within a text: what a translation keeps exactly.

    %s %(name)s %1$d %% %{name}      printf, Python, gettext, Ruby
    {} {0} {name!r} {{ name }}       str.format, ICU, Jinja
    $VAR ${VAR}                      shells, templates
    `code` ``code`` :ref:`name`      Markdown, reStructuredText
    http://... ftp://... me@host.org addresses

The time is linear in the length of the text.
"""

import re
from collections.abc import Iterator

CODE = (  # between two runs of as many backticks; other runs may be within
    r"(?<!`)(?P<ticks>`++)(?:[^`]++|(?!(?P=ticks)(?!`))`++)+(?P=ticks)(?!`)"
)
_PATTERNS = (
    r"(?::[a-z][a-z:+-]{0,30}:)?" + CODE,
    r"(?:https?|ftp)://(?:[^\s<>\"'`/.]++\.)*+"  # labels, in any script
    r"(?:[!#-&*-;=?-_a-z~{|}]|\([^\s()<>\"'`]*+\)"
    r"|(?<=[/_-])[^\x00-\x7f\s]++)*"  # parts of a path that begin in another script
    r"(?:[/#=&a-zA-Z0-9-]|(?<=[^\x00-\x7f\s])|(?<=\w\)))",
    r"(?<![\w.+-])[\w.+-]++@[A-Za-z0-9-]++(?:\.[A-Za-z0-9-]++)++",
    r"\{\{[^{}\n]*+\}\}|\{%[^%{}\n]*+%\}|[$%]\{[^{}\s]++\}|\{[\w.!:\[\]<>^+,-]*+\}",
    r"\$[A-Za-z_][A-Za-z0-9_]*+",
    r"(?P<printf>%(?:\d++\$)?(?:\(\w++\))?[-+#0]*+(?:\d++|\*)?(?:\.(?:\d++|\*))?"
    r"(?:hh|ll|[hlLqjzt])?[diouxXeEfFgGaAcsrpn@](?![A-Za-z])|%%)",
)
ATOM = re.compile("|".join(_PATTERNS))
_UNNUMBERED = re.compile(r"%(?!\d++\$)(?!\()(?!%)(?!\{)|\{(?:[!:][^{}]*)?\}\Z")


def split_atoms(text: str) -> Iterator[tuple[str, bool]]:
    """The parts of a text in order, and whether each is to be kept exactly.

    >>> list(split_atoms("파일 %(name)s의 50%가 있습니다"))
    [('파일 ', False), ('%(name)s', True), ('의 50%가 있습니다', False)]
    >>> [part for part, kept in split_atoms("${HOME}, {0!r}, `a b`, ftp://a.kr/b?c=d.") if kept]
    ['${HOME}', '{0!r}', '`a b`', 'ftp://a.kr/b?c=d']
    """
    position = 0
    for match in ATOM.finditer(text):
        if position < match.start():
            yield text[position : match.start()], False
        yield match[0], True
        position = match.end()
    if position < len(text):
        yield text[position:], False


def is_ordered(atom: str) -> bool:
    """Whether a placeholder has its meaning by its position: these stay in their order.

    >>> [is_ordered(each) for each in ("%s", "{}", "%1$s", "%(name)s", "{0}", "%%", "$VAR")]
    [True, True, False, False, False, False, False]
    """
    return _UNNUMBERED.match(atom) is not None
