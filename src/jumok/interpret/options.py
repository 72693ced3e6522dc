"""The display options of attention weights, which `aggregate` applies."""

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from jumok.errors import TraceError

Unit: TypeAlias = Literal["piece", "syllable", "word"]
Specials: TypeAlias = Literal["plain", "dim", "renormalise"]
Measure: TypeAlias = Literal["weights", "values"]

UNITS: tuple[Unit, ...] = get_args(Unit)
SPECIALS: tuple[Specials, ...] = get_args(Specials)
MEASURES: tuple[Measure, ...] = get_args(Measure)


def check_choice(name: str, value: object, known: Sequence[str]) -> None:
    """Raise TraceError unless the value of an option is one of the known ones."""
    if value not in known:
        raise TraceError(
            "trace.unknown_value",
            "{name} must be one of {known}, got {value!r}",
            name=name,
            known=", ".join(known),
            value=value,
        )
