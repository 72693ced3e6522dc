"""jumok evaluate: score a run on test data."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from jumok.cli.options import (
    DecodingOverrides,
    DeviceOption,
    EnsembleRuns,
    PrecisionOption,
    apply_decoding,
    ensemble_info,
    load_ensemble,
    with_precision,
)
from jumok.errors import UsageError
from jumok.shipped import complete_run
from jumok.terminal import print_json, print_line

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def evaluate(
    run: Annotated[
        Path,
        typer.Argument(metavar="RUN", autocompletion=complete_run, help="The folder of a run."),
    ],
    data: Annotated[
        Path | None,
        typer.Option(help="TSV, CSV or JSON file with the columns of the run's data."),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Split of the recipe's data. [default: all test sets]")
    ] = None,
    ensemble: EnsembleRuns = None,
    decoding: DecodingOverrides = None,
    precision: PrecisionOption = None,
    device: DeviceOption = "auto",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the scores as one JSON object.")
    ] = False,
) -> None:
    """Score a run on the test sets of its recipe, on another split, or on a file."""
    from jumok.tasks.runs.api import evaluate_all

    if data is not None and split is not None:
        raise UsageError(
            "cli.data_and_split", "--data and --split exclude each other; use one of them"
        )
    pipeline = with_precision(load_ensemble(run, ensemble, decoding or [], device), precision)
    pipeline = apply_decoding(pipeline, decoding or [], ensemble, precision)
    info = ensemble_info(ensemble, precision)
    first, *others = [scores | info for scores in evaluate_all(pipeline, data, split)]
    if as_json:
        print_json(first | ({"others": others} if others else {}))
        return
    for number, scores in enumerate([first, *others]):
        print_line(("\n" if number else "") + _lines(scores))


def _lines(scores: Mapping[str, object]) -> str:
    width = max(map(len, scores))
    return "\n".join(f"{name:<{width}} {_shown(value)}" for name, value in scores.items())


def _shown(value: object) -> str:
    if isinstance(value, dict):  # the kernel
        return f"{value['kernel']} in {value['precision']}: {value['reason']}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:.4f}" if isinstance(value, float) else str(value)
