"""The display options of attention weights, which `aggregate` applies."""

from typing import Literal, TypeAlias, get_args

Unit: TypeAlias = Literal["piece", "syllable", "word"]
Specials: TypeAlias = Literal["plain", "dim", "renormalise"]
Measure: TypeAlias = Literal["weights", "values"]

UNITS: tuple[Unit, ...] = get_args(Unit)
SPECIALS: tuple[Specials, ...] = get_args(Specials)
MEASURES: tuple[Measure, ...] = get_args(Measure)
