"""jumok heads: what each attention head of a model does on texts."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jumok.cli.stdin import read_lines
from jumok.errors import InputError
from jumok.terminal import print_json, print_line, print_notice

if TYPE_CHECKING:
    from jumok.interpret.trace import Trace

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def heads(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", help="A run, an imported checkpoint, a Hugging Face folder or a trace."
        ),
    ],
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TEXT]...", help="Texts. [default: the lines of stdin]"),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help="Print the heads with the highest score first."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per head.")
    ] = False,
) -> None:
    """Score every head for the patterns of the literature, from 0 to 1.

    previous_token, duplicate_token, induction, positional, separator (special tokens and the first
    token) and rare_word. Patterns of repeated tokens need texts in which tokens repeat.
    """
    from jumok.config_io import suggest
    from jumok.interpret.head_patterns import PATTERNS, has_repeats, score_heads

    if sort is not None and sort not in PATTERNS:
        raise InputError(f"sort must be one of {', '.join(PATTERNS)}; {suggest(sort, PATTERNS)}")
    traces = _traces(model, texts)
    rows = score_heads(traces)
    if sort is not None:
        rows.sort(key=lambda row: -row.scores[sort])
    if not has_repeats(traces):
        print_notice(
            "jumok: no token of the texts repeats, so that duplicate_token and induction are 0; "
            "give longer texts"
        )
    if not as_json:
        print_line(f"{'head':<14}" + "".join(f"{name:>16}" for name in PATTERNS))
    for row in rows:
        if as_json:
            place = {"block": row.block, "layer": row.layer, "head": row.head}
            print_json(place | {name: round(row.scores[name], 6) for name in PATTERNS})
        else:
            cells = "".join(f"{row.scores[name]:>16.3f}" for name in PATTERNS)
            print_line(f"{f'{row.block}.{row.layer}.{row.head}':<14}{cells}")


def _traces(model: Path, texts: list[str] | None) -> "list[Trace]":
    """A saved trace, or the traces of the model on each text."""
    if model.is_file():
        from jumok.interpret.trace import Trace

        if texts:
            raise InputError(f"{model} is a trace and takes no text; give the run instead")
        return [Trace.open(model)]
    from jumok.interpret.tracing import trace
    from jumok.tasks.runs.load import load

    pipeline = load(model)
    lines = [text for text in texts or read_lines() if text.strip()]
    if not lines:
        raise InputError("heads must have at least one text, got none; give TEXT or lines on stdin")
    return [trace(pipeline, text, explain=False) for text in lines]
