"""Combinations of parameters: some rows that together have all values, or all pairs of two."""

from collections.abc import Iterable
from itertools import combinations, product
from typing import Any

import pytest


def pairwise(*axes: Iterable[Any]) -> list[Any]:
    """Rows that have every pair of values of two axes."""
    values = [list(axis) for axis in axes]
    return [_of(values, row) for row in _covering(2, values)]


def singly(*axes: Iterable[Any]) -> list[Any]:
    """The same; the rows that repeat each of their values are slow."""
    values = [list(axis) for axis in axes]
    few = _covering(1, values)
    others = [row for row in _covering(2, values) if row not in few]
    return [_of(values, row) for row in few] + [slow(*_of(values, row)) for row in others]


def slow(*values: Any) -> Any:
    """A row that is slow."""
    return pytest.param(*values, marks=pytest.mark.slow)


Row = tuple[int, ...]  # the number of a value on each axis


def _of(values: list[list[Any]], row: Row) -> tuple[Any, ...]:
    return tuple(axis[i] for axis, i in zip(values, row, strict=True))


def _covering(together: int, values: list[list[Any]]) -> list[Row]:
    """Rows that have each combination of values of so many axes."""
    rows = list(product(*(range(len(axis)) for axis in values)))
    parts = {row: set(combinations(enumerate(row), together)) for row in rows}
    missing = set().union(*parts.values())
    chosen = []
    while missing:
        best = max(rows, key=lambda row: len(parts[row] & missing))
        chosen.append(best)
        missing -= parts[best]
    return sorted(chosen)
