"""How answers are written: the words of `predict` and `evaluate`, and the settings in force."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from jumok.tasks.pipeline.pipeline import Loaded

Words = Annotated[
    list[str] | None,
    typer.Option(
        "--decoding",
        metavar="KEY=VALUE",
        help="Laid over the recipe's [decoding]: beam=5, sample=true ... Repeatable.",
    ),
]

Along = Annotated[
    list[Path] | None,
    typer.Option(
        "--with",
        metavar="RUN",
        help="Another run, of the same vocabulary, that writes along: an ensemble. Repeatable.",
    ),
]


def load_with(run: Path, others: Sequence[Path] | None, words: Sequence[str] = ()) -> "Loaded":
    """A run, or several as one that writes by the mean of their probabilities.

    The words are laid over its settings first: they may take away what only one run can do.
    """
    from jumok.tasks.runs.load import load

    loaded = load(run)
    if not others:
        return loaded
    alone = loaded.with_decoding(words) if words else loaded
    return alone.beside([load(other) for other in others])


def besides(others: Sequence[Path] | None, precision: str | None) -> dict[str, Any]:
    """What acts beside a run and its settings, as `evaluate --json` tells it; nothing as a rule.

    >>> besides([Path("runs/second")], "int8")
    {'with': ['runs/second'], 'precision': 'int8'}
    >>> besides(None, None)
    {}
    """
    names = [os.fsencode(run).decode("utf-8", "backslashreplace") for run in others or ()]
    asked: dict[str, Any] = {"with": names, "precision": precision}
    return {key: value for key, value in asked.items() if value}


def overridden(
    loaded: "Loaded",
    words: Sequence[str],
    others: Sequence[Path] | None = None,
    precision: str | None = None,
) -> "Loaded":
    """The model with these words laid over its settings; all that is in force goes to stderr."""
    from jumok.tasks.pipeline.task import Writing

    if words:
        loaded = loaded.with_decoding(words)
    told = []
    if isinstance(loaded.task, Writing):
        told.append(f"decoding {loaded.task.in_force(loaded)}{loaded.rules}")
    said = besides(others, precision)
    if "with" in said:
        told.append(f"with {', '.join(map(repr, said['with']))}")
    if "precision" in said:
        told.append(f"read in {said['precision']}")
    if told:
        print("; ".join(told), file=sys.stderr)
    return loaded
