"""The mutants of `mutants.py`, read from mutants.toml.

All of them change what jumok computes, stores or promises; none fails at import. A mutant that
changes nothing observable does not belong there.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    """One snippet of one file and its replacement."""

    file: str
    old: str
    new: str
    breaks: str
    killers: tuple[str, ...]  # tests that must detect it, the most likely first


_DATA = tomllib.loads(Path(__file__).with_suffix("").with_name("mutants.toml").read_text("utf-8"))

MUTANTS: tuple[Mutant, ...] = tuple(
    Mutant(
        f"src/jumok/{entry['file']}.py",
        entry["old"],
        entry["new"],
        entry["breaks"],
        tuple(f"tests/{test}" for test in entry["killers"]),
    )
    for entry in _DATA["mutant"]
)


def own_tests(file: str) -> tuple[str, ...]:
    """The test files of a module."""
    name = file.removeprefix("src/jumok/").removesuffix(".py")
    return tuple(f"tests/{test}" for test in _DATA["tests"][name])
