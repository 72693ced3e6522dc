"""Cells with any number of labels, separated by "|": a text may have several labels, or none."""

from collections.abc import Iterable

SEPARATOR = "|"


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
