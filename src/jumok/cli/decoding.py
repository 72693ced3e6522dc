"""How answers are written: the words of `predict` and `evaluate`, and the settings in force."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from jumok.tasks.answering import Loaded

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


def load_with(run: Path, others: Sequence[Path] | None) -> "Loaded":
    """A run, or several as one that writes by the mean of their probabilities."""
    from jumok.tasks.loading import load

    loaded = load(run)
    return loaded.beside([load(other) for other in others]) if others else loaded


def overridden(loaded: "Loaded", words: Sequence[str]) -> "Loaded":
    """The model with these words laid over its settings; those in force are told on stderr."""
    from jumok.tasks.task import Writing

    if words:
        loaded = loaded.with_decoding(words)
    if isinstance(loaded.task, Writing):
        print(f"decoding {loaded.task.in_force(loaded)}{loaded.rules}", file=sys.stderr)
    return loaded
