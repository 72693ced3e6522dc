"""What may be done to weights before they are shown, by name; `merging` does it."""

from typing import Literal, TypeAlias, get_args

Unit: TypeAlias = Literal["piece", "syllable", "word"]
Specials: TypeAlias = Literal["plain", "dim", "renormalise"]
Measure: TypeAlias = Literal["weights", "values"]

UNITS: tuple[Unit, ...] = get_args(Unit)
SPECIALS: tuple[Specials, ...] = get_args(Specials)
MEASURES: tuple[Measure, ...] = get_args(Measure)
