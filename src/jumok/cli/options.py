"""Options shared by `predict` and `evaluate`: decoding settings, ensembles, encoder precision."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from jumok.tasks.pipeline.pipeline import Pipeline

DecodingOverrides = Annotated[
    list[str] | None,
    typer.Option(
        "--decoding",
        metavar="KEY=VALUE",
        help="Override [decoding] of the recipe, e.g. beam=5, sample=true. Repeatable.",
    ),
]

EnsembleRuns = Annotated[
    list[Path] | None,
    typer.Option(
        "--with",
        metavar="RUN",
        help="Ensemble with another run that has the same vocabulary. Repeatable.",
    ),
]


def load_ensemble(
    run: Path, others: Sequence[Path] | None, words: Sequence[str] = ()
) -> "Pipeline":
    """A run, or an ensemble of several runs, which averages their probabilities.

    The decoding overrides are applied first: they may remove a setting that ensembles reject.
    """
    from jumok.tasks.runs.load import load

    loaded = load(run)
    if not others:
        return loaded
    alone = loaded.with_decoding(words) if words else loaded
    return alone.ensemble([load(other) for other in others])


def ensemble_info(others: Sequence[Path] | None, precision: str | None) -> dict[str, Any]:
    """The keys that `evaluate --json` adds for an ensemble or a precision; empty without them.

    >>> ensemble_info([Path("runs/second")], "int8")
    {'with': ['runs/second'], 'precision': 'int8'}
    >>> ensemble_info(None, None)
    {}
    """
    names = [os.fsencode(run).decode("utf-8", "backslashreplace") for run in others or ()]
    asked: dict[str, Any] = {"with": names, "precision": precision}
    return {key: value for key, value in asked.items() if value}


def apply_decoding(
    loaded: "Pipeline",
    words: Sequence[str],
    others: Sequence[Path] | None = None,
    precision: str | None = None,
) -> "Pipeline":
    """The model with decoding overrides; the effective settings are printed to stderr."""
    from jumok.tasks.pipeline.pipeline import GenerativeTask

    if words:
        loaded = loaded.with_decoding(words)
    told = []
    if isinstance(loaded.task, GenerativeTask):
        told.append(
            f"decoding {loaded.task.effective_decoding(loaded)}{loaded.constraints_summary}"
        )
    said = ensemble_info(others, precision)
    if "with" in said:
        told.append(f"with {', '.join(map(repr, said['with']))}")
    if "precision" in said:
        told.append(f"encoder in {said['precision']}")
    if told:
        print("; ".join(told), file=sys.stderr)
    return loaded
