"""How answers are written: the words of `predict` and `evaluate`, and the settings in force."""

import sys
from collections.abc import Sequence
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


def overridden(loaded: "Loaded", words: Sequence[str]) -> "Loaded":
    """The model with these words laid over its settings; those in force are told on stderr."""
    from jumok.tasks.task import Writing

    if words:
        loaded = loaded.with_decoding(words)
    if isinstance(loaded.task, Writing):
        print(f"decoding {loaded.task.in_force(loaded)}", file=sys.stderr)
    return loaded
