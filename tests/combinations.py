"""Combinations of parameters: a few rows cover all values or pairs, the others are slow."""

from collections.abc import Iterable
from itertools import combinations, product
from typing import Any

import pytest


def pairwise(*axes: Iterable[Any]) -> list[Any]:
    """Every combination of the axes; those that repeat pairs of values of two axes are slow."""
    return _covering(2, axes)


def singly(*axes: Iterable[Any]) -> list[Any]:
    """Every combination of the axes; those that repeat each of their values are slow."""
    return _covering(1, axes)


def slow(*values: Any) -> Any:
    """A row that is slow."""
    return pytest.param(*values, marks=pytest.mark.slow)


def _covering(together: int, axes: Iterable[Iterable[Any]]) -> list[Any]:
    values = [list(axis) for axis in axes]
    rows = list(product(*(range(len(axis)) for axis in values)))
    parts = {row: set(combinations(enumerate(row), together)) for row in rows}
    missing = set().union(*parts.values())
    chosen = set()
    while missing:
        best = max(rows, key=lambda row: len(parts[row] & missing))
        chosen.add(best)
        missing -= parts[best]
    return [
        pytest.param(
            *(axis[i] for axis, i in zip(values, row, strict=True)),
            marks=() if row in chosen else pytest.mark.slow,
        )
        for row in rows
    ]
