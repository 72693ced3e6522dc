"""Sentence pairs of gettext catalogues (.po) whose texts are reStructuredText.

Markup is removed. A paragraph is cut into sentences where both languages have equally many and
each pair has the same code in it.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator

HANGUL = re.compile("[\uac00-\ud7a3]")

_ENTRY = re.compile(r'(msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)\s+(".*")$')
_SPAN = re.compile(r":[A-Za-z][A-Za-z0-9:+_.-]*:`[^`]*`|``[^`]+``|`[^`]+`__?|`[^`]+`")
_ROLE = re.compile(r":([A-Za-z][A-Za-z0-9:+_.-]*):`")
_PROSE = "term ref dfn doc abbr guilabel menuselection pep rfc issue source cve"
_PROSE_ROLES = frozenset(_PROSE.split())
_ROLE_PREFIX = {"pep": "PEP ", "rfc": "RFC ", "issue": "bpo-"}
_END = {
    "en": re.compile(
        r"(?<![A-Z])(?<!e\.g)(?<!i\.e)(?<!etc)(?<!vs)(?<!cf)(?<!No)"
        "([.!?])([\"')\\]]*)\\s+(?=[A-Z\ue000(\"'])"
    ),
    "ko": re.compile(r"([.!?])([\"')\]]*)\s+"),
}
_HIDDEN = re.compile("\ue000(\\d+)\ue001")  # a markup span while a paragraph is cut

Sentence = tuple[str, Counter[str]]  # the text, and the code in it


def paragraph_pairs(catalogue: str) -> Iterator[tuple[str, str]]:
    """Korean and English sentences, or paragraphs that cannot be cut, of a catalogue."""
    for flags, english, korean in _entries(catalogue):
        if not english or not korean or "fuzzy" in flags or not HANGUL.search(korean):
            continue
        en, ko = _sentences(english, "en"), _sentences(korean, "ko")
        whole_ko, whole_en = (one_line(" ".join(text for text, _ in side)) for side in (ko, en))
        scale = len(whole_ko) / len(whole_en) if whole_en else 0.0
        if (
            len(en) == len(ko) > 1
            and all(x[1] == y[1] for x, y in zip(en, ko, strict=True))
            and all(0.4 < len(y[0]) / len(x[0]) / scale < 2.5 for x, y in zip(en, ko, strict=True))
        ):
            yield from ((y[0], x[0]) for x, y in zip(en, ko, strict=True))
        else:
            yield whole_ko, whole_en


def is_good_pair(korean: str, english: str) -> bool:
    """Whether a pair is a sentence of 3 to 60 English words and a translation of similar length."""
    if not 3 <= len(english.split()) <= 60:
        return False
    if not HANGUL.search(korean) or HANGUL.search(english) or not re.search("[A-Za-z]{2}", english):
        return False
    if "`" in korean + english or "::" in korean or "\\" in korean + english:
        return False
    hangul = len(HANGUL.findall(korean))
    return 0.18 <= len(korean) / len(english) <= 1.3 and hangul >= 0.15 * len(korean)


def one_line(text: str) -> str:
    """The text with single spaces."""
    return " ".join(text.split())


def _entries(catalogue: str) -> Iterator[tuple[set[str], str, str]]:
    """The flags, the English and the Korean text of each entry that is not obsolete."""
    flags: set[str] = set()
    cells: dict[str, str] = {}
    key = ""
    for raw in [*catalogue.splitlines(), ""]:
        line = raw.strip()
        start = _ENTRY.match(line)
        ends = not line or (line.startswith("#") and "msgstr" in cells)
        if ends or (start and start[1] == "msgid" and "msgid" in cells):
            if "msgid" in cells and "msgstr" in cells:
                yield flags, cells["msgid"], cells["msgstr"]
            flags, cells, key = set(), {}, ""
        if line.startswith("#,"):
            flags |= {flag.strip() for flag in line[2:].split(",")}
        elif start:
            key = "msgstr" if start[1] == "msgstr[0]" else start[1]
            cells[key] = ast.literal_eval(start[2])
        elif line.startswith('"') and key:
            cells[key] += ast.literal_eval(line)


def _sentences(raw: str, language: str) -> list[Sentence]:
    """The sentences of a paragraph without markup."""
    raw = re.sub(r"`\\([^`])", r"`\1", re.sub(r"\\ ", "", raw))
    spans = _SPAN.findall(raw)
    numbers = iter(range(len(spans)))
    text = _plain(one_line(_SPAN.sub(lambda _: f"\ue000{next(numbers)}\ue001", raw)))
    cuts, start = [], 0
    for match in _END[language].finditer(text):
        cuts.append(text[start : match.end(2)])
        start = match.end()
    cuts.append(text[start:])
    found = []
    for cut in cuts:
        codes = [_code(spans[int(number)]) for number in _HIDDEN.findall(cut)]
        shown = one_line(_HIDDEN.sub(lambda match: _shown(spans[int(match[1])]), cut))
        found.append((shown, Counter(code for code in codes if code)))
    return [sentence for sentence in found if sentence[0]]


def _role(span: str) -> str:
    match = _ROLE.match(span)
    return match[1].split(":")[-1] if match else ""


def _body(span: str) -> str:
    return span[span.index("`") + 1 : -1]


def _shown(span: str) -> str:
    """What a reader sees of a markup span."""
    role = _role(span)
    if not role and span.startswith("``"):
        return span[2:-2]
    body = _body(span) if role else span.rstrip("_")[1:-1]
    titled = re.match(r"(?s)(.+?)\s*<([^<>]*)>$", body)
    if titled:
        return titled[1].lstrip("!")
    if body.startswith("~"):
        body = body.rsplit(".", 1)[-1].lstrip("~")
    return _ROLE_PREFIX.get(role, "") + body.lstrip("!")


def _code(span: str) -> str:
    """The part of a span that is the same in every language; "" if there is none."""
    role = _role(span)
    if role in _PROSE_ROLES:
        return ""
    if role:
        body = _body(span)
        target = re.search(r"<([^<>]*)>$", body)
        return (target[1] if target else body).lstrip("~!")
    return span[2:-2] if span.startswith("``") else ""


def _plain(text: str) -> str:
    """The text without escapes, footnotes, emphasis and substitutions."""
    text = re.sub(r"\\ |\\(?=[^\w]|[\uac00-\ud7a3])", "", text)
    text = re.sub(r"\s*\[[#\w]*\]_", "", text)
    text = re.sub(r"\*\*([^*]+)\*\*", r"\1", text)
    text = re.sub(r"(?<![\w*])\*([^*\s](?:[^*]*[^*\s])?)\*(?![*])", r"\1", text)
    text = re.sub(r"\|([A-Za-z_-]+)\|", r"\1", text)
    return re.sub(r"\s*::\s*$", ":", text)
