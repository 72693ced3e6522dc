"""Labels of files and frames: one text for the same value in every format."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from jumok.unicode_forms import normalize

SEPARATOR = "|"  # of the labels in a cell: a text may have several labels, or none

_WHOLE = re.compile(r"(-?\d+)\.0+")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_JSON_BOOLEANS = {"true": "True", "false": "False"}
_OTHER_SEPARATORS = re.compile(r"[,;/]")


@lru_cache(maxsize=4_096, typed=True)  # 1 == 1.0 == True
def label_text(value: object) -> str:
    """The text of a label: in NFC, without white space around it, whole numbers without a point.

    Frames turn integers into floats where a cell is missing, and JSON writes booleans in lower
    case; these are the same labels.

    >>> label_text(1), label_text(1.0), label_text(" 1.0 "), label_text(2.5)
    ('1', '1', '1', '2.5')
    >>> label_text(True), label_text("true"), label_text("긍정 ")
    ('True', 'True', '긍정')
    """
    text = normalize("NFC", str(value)).strip()
    if whole := _WHOLE.fullmatch(text):
        return whole[1]
    return _JSON_BOOLEANS.get(text, text)


def label_cells(labels: Sequence[str], numbered: Sequence[str] | None = None) -> dict[str, str]:
    """The possible cells of labels with their names: the name, or its index in `numbered`.

    `numbered` are the names in a stated order, by default `labels`; () where nothing states it. If
    a name is a number itself, cells are names only.

    >>> label_cells(["negative", "positive"])
    {'negative': 'negative', 'positive': 'positive', '0': 'negative', '1': 'positive'}
    >>> label_cells(["negative", "positive"], ())
    {'negative': 'negative', 'positive': 'positive'}
    """
    named = {name: name for name in labels}
    if any(map(is_number, labels)):
        return named
    order = labels if numbered is None else numbered
    return named | {str(number): name for number, name in enumerate(order)}


def is_number(label: str) -> bool:
    """Whether a label is a number, such as an index.

    >>> is_number("-1"), is_number("2.5"), is_number("4점")
    (True, True, False)
    """
    return _NUMBER.fullmatch(label) is not None


def combined_label(labels: Collection[str]) -> str:
    """A label that looks like several ones, as "정치,경제" next to "정치"; "" if there is none.

    All its parts must occur in other labels too: "생활, 문화" alone is one label.

    >>> combined_label(["정치,경제", "정치", "경제"]), combined_label(["생활, 문화", "정치"])
    ('정치,경제', '')
    """
    parts = {label: _parts(label) for label in labels}
    occurring: dict[str, int] = {}
    for found in parts.values():
        for part in set(found):
            occurring[part] = occurring.get(part, 0) + 1
    for label, found in parts.items():
        if len(found) > 1 and all(occurring[part] > 1 for part in found):
            return label
    return ""


def join_names(names: Iterable[str]) -> str:
    """Names of labels for a message; those with a comma are quoted.

    >>> join_names(["정치", "생활, 문화"])
    "정치, '생활, 문화'"
    """
    return ", ".join(repr(name) if "," in name else name for name in names)


def similar_labels(labels: Iterable[str]) -> list[tuple[str, ...]]:
    """The groups of labels that differ only in case, white space or the form of characters.

    >>> similar_labels(["True", "TRUE", "IT 과학", "IT과학", "정치"])
    [('IT 과학', 'IT과학'), ('TRUE', 'True')]
    """
    groups: dict[str, list[str]] = {}
    for label in sorted(labels):
        key = "".join(normalize("NFKC", label).casefold().split())
        groups.setdefault(key, []).append(label)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def counted_labels(cells: Iterable[str], column: str) -> Mapping[str, int]:
    """The number of rows of each label of the column `label`, `labels` or `tags`, most first."""
    counts: dict[str, int] = {}
    for cell in cells:
        match column:
            case "labels":
                found = split_labels(cell)
            case "tags":
                found = sorted({tag.partition("-")[2] or tag for tag in cell.split(" ")} - {"O"})
            case _:
                found = [cell]
        for label in found:
            counts[label] = counts.get(label, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _parts(label: str) -> list[str]:
    return [part for part in map(str.strip, _OTHER_SEPARATORS.split(label)) if part]


def split_labels(cell: str) -> list[str]:
    """The distinct labels of a cell in order, without white space around them.

    >>> split_labels("연기 | 음악|연기"), split_labels(" ")
    (['연기', '음악'], [])
    """
    parts = (part.strip() for part in cell.split(SEPARATOR))
    return list(dict.fromkeys(part for part in parts if part))


def join_labels(labels: Iterable[str]) -> str:
    """The cell of labels.

    >>> join_labels(["연기", "음악"])
    '연기|음악'
    """
    return SEPARATOR.join(labels)
