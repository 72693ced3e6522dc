"""jumok evaluate: score a run on test data."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jumok.cli.options import (
    DecodingOverrides,
    DeviceOption,
    EnsembleRuns,
    PrecisionOption,
    apply_decoding,
    ensemble_info,
    json_option,
    load_ensemble,
    run_argument,
    with_precision,
)
from jumok.errors import UsageError
from jumok.language import translate
from jumok.terminal import pad, print_json, print_line, text_width

if TYPE_CHECKING:
    from jumok.tasks.pipeline.pipeline import Pipeline

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def evaluate(
    run: Annotated[Path, run_argument()],
    data: Annotated[
        Path | None, typer.Option(help="TSV, CSV or JSON file with the columns of the run's data.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Split of the recipe's data. [default: all test sets]")
    ] = None,
    ensemble: EnsembleRuns = None,
    decoding: DecodingOverrides = None,
    precision: PrecisionOption = None,
    device: DeviceOption = "auto",
    predictions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write text, label, prediction and probability of each row to a .tsv or "
            ".jsonl file.",
        ),
    ] = None,
    measure_int8: Annotated[
        bool,
        typer.Option(
            "--measure-int8",
            help="Compare int8 with float32 on dev. predict and serve then use int8 if no metric "
            "falls by more than 0.005.",
        ),
    ] = False,
    as_json: Annotated[bool, json_option("Print the scores as one JSON object.")] = False,
) -> None:
    """Score a run on the test sets of its recipe, on another split, or on a file."""
    from jumok.tasks.runs.api import evaluate_all

    if data is not None and split is not None:
        raise UsageError(
            "cli.data_and_split", "--data and --split exclude each other; use one of them"
        )
    if measure_int8:
        if data or split or ensemble or decoding or precision or predictions:
            raise UsageError(
                "cli.measure_int8_alone",
                "--measure-int8 reads the dev rows of RUN and takes only --device and --json; "
                "leave the other options out",
            )
        _measure_int8(load_ensemble(run, None, device=device), as_json)
        return
    pipeline = with_precision(load_ensemble(run, ensemble, decoding or [], device), precision)
    pipeline = apply_decoding(pipeline, decoding or [], ensemble, precision)
    info = ensemble_info(ensemble, precision)
    found = evaluate_all(pipeline, data, split, predictions)
    first, *others = [scores | info for scores in found]
    if as_json:
        print_json(first | ({"others": others} if others else {}))
        return
    for number, scores in enumerate([first, *others]):
        print_line(("\n" if number else "") + _lines(scores))


def _measure_int8(pipeline: "Pipeline", as_json: bool) -> None:
    """Measure int8 on the dev rows, and print the scores of both precisions."""
    from jumok.config_io import to_dict
    from jumok.tasks.runs.compare import measure_int8

    loss = measure_int8(pipeline)
    if as_json:
        print_json(to_dict(loss) | {"precision": loss.precision})
        return
    for each in loss.metrics:
        print_line(f"{each.name:<12} float32 {each.float32:.4f}  int8 {each.int8:.4f}")
    print_line(translate("{:,} of {:,} rows with another output", loss.different, loss.rows))
    print_line(translate("predict and serve use {}", loss.precision))


def _lines(scores: Mapping[str, Any]) -> str:
    """One line for each score, then one for each label of a classifier."""
    plain = {name: value for name, value in scores.items() if name != "labels"}
    width = max(map(len, plain))
    lines = [f"{name:<{width}} {_shown(value)}" for name, value in plain.items()]
    labels: dict[str, dict[str, float]] = scores.get("labels", {})
    if labels:
        width = max(map(text_width, labels))
        names = ("n", "precision", "recall", "f1")
        lines += ["", " " * width + "".join(f"{translate(name):>11}" for name in names)]
        lines += [
            pad(label, width) + "".join(f"{_shown(row[name]):>11}" for name in names)
            for label, row in labels.items()
        ]
    return "\n".join(lines)


def _shown(value: object) -> str:
    if isinstance(value, dict):  # the kernel
        return f"{value['kernel']} in {value['precision']}: {value['reason']}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:.4f}" if isinstance(value, float) else str(value)
