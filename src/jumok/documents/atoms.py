"""Placeholders, addresses and code within a text: what a translation keeps exactly.

    %s %(name)s %1$d %% %{name}      printf, Python, gettext, Ruby
    {} {0} {name!r}                  str.format, ICU
    {{ name }} {{{name}}} {% if %}   Jinja, Mustache
    <%= name %> [[name]] {#install}  ERB, wikis, attributes in Markdown
    $VAR ${VAR}                      shells, templates
    `code` ``code`` :ref:`name`      Markdown, reStructuredText
    http://... ftp://... me@host.org addresses
    ♪ → ★ ※ © 🙂                     symbols, which few vocabularies have

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
    _TEMPLATE := r"\{\{\{[^{}\n]*+\}\}\}|\{\{[^{}\n]*+\}\}"
    r"|\{%[^%{}\n]*+(?:%(?!\})[^%{}\n]*+)*+%\}|<%[^%<\n]*+(?:%(?!>)[^%<\n]*+)*+%>"
    r"|\[\[[^\[\]\n]++\]\](?![(\[])",
    r"[$%]\{[^{}\s]++\}|\{[\w.!:\[\]<>^+,-]*+\}|\{[#/:@.][^{}\n]*+\}",
    r"\$[A-Za-z_][A-Za-z0-9_]*+",
    r"(?P<printf>%(?:\d++\$)?(?:\(\w++\))?[-+#0]*+(?:\d++|\*)?(?:\.(?:\d++|\*))?"
    r"(?:hh|ll|[hlLqjzt])?[diouxXeEfFgGaAcsrpn@](?![A-Za-z])|%%)",
)
ATOM = re.compile("|".join(_PATTERNS))
_SYMBOLS = (  # Unicode category So and arrows, in runs with the signs that join emoji
    "\u00a6\u00a9\u00ae\u00b0\u203b\u2100-\u214f\u2190-\u21ff\u2300-\u23ff\u2440-\u245f\u249c-\u24e9"
    "\u2500-\u2767\u2794-\u27bf\u27f0-\u27ff\u2900-\u297f\u2b00-\u2bff\u3004\u3012\u3013\u3020"
    "\u3200-\u32ff\u4dc0-\u4dff\U0001f000-\U0001faff"
)
_SPACES = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"  # other than ASCII: no break, wide, thin
SIGN = re.compile(  # symbols or such spaces, and entities, which may be either
    f"[{_SYMBOLS}][{_SYMBOLS}\ufe0e\ufe0f\u200d]*+(?:\u20e3\ufe0f?)?"
    f"|[{_SPACES}]++|&(?:#[0-9]{{1,7}}|#[xX][0-9a-fA-F]{{1,6}}|[A-Za-z][A-Za-z0-9]{{1,31}}+);"
)
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


def read_as(atom: str) -> str:
    """What a model reads of what is kept: of code what is between its backticks.

    A variable of a template is a name in single braces, the form that translators know best;
    statements of templates and attributes are no words.

    >>> read_as("`pip install`"), read_as(":ref:`note`"), read_as("`a`"), read_as("%s")
    ('pip install', 'note', '"a"', '%s')
    >>> read_as("{{ user.name | title }}"), read_as("<%= x %>"), read_as("{{ 1 }}")
    ('{user.name}', '{x}', '{0}')
    >>> read_as("{% if x %}"), read_as("{#install}")
    ('', '')
    """
    if re.match(r"\{%|<%(?![=-])|\{[#/@]|\{[:.][^{}]*\s", atom):
        return ""
    if re.fullmatch(_TEMPLATE, atom):
        name = re.search(r"[A-Za-z_][A-Za-z0-9_.]*", atom)
        return f"{{{name[0]}}}" if name else "{0}"
    match = re.fullmatch(r"(?::[a-z][a-z:+-]*:)?(`++)(.*)\1", atom, re.DOTALL)
    return atom if match is None else read_code(match[2].strip())


def read_code(code: str) -> str:
    """What a model reads of code: a letter or a sign in quotes, since "a" is an English word too.

    Nothing of code with the end of a sentence in it, which would divide its text.

    >>> read_code("pip install"), read_code("x"), read_code("**"), read_code("a. b")
    ('pip install', '"x"', '"**"', '')
    """
    if re.search(r"[.!?…]\s", code):
        return ""
    return code if len(code) > 1 and re.search(r"\w", code) else f'"{code}"'


def is_ordered(atom: str) -> bool:
    """Whether a placeholder has its meaning by its position: these stay in their order.

    >>> [is_ordered(each) for each in ("%s", "{}", "%1$s", "%(name)s", "{0}", "%%", "$VAR")]
    [True, True, False, False, False, False, False]
    """
    return _UNNUMBERED.match(atom) is not None
