"""jumok export: convert a run to the format of another library."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from jumok.terminal import print_json, print_line, print_notice

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="New folder for the exported model.")],
    to: Annotated[
        str,
        typer.Option(
            metavar="FORMAT", help="hf, sentence-transformers, peft, ctranslate2 or onnx."
        ),
    ],
    quantize: Annotated[
        Literal["int8"] | None,
        typer.Option(help="Quantize the weights; the change in scores is measured."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report as one JSON object.")
    ] = False,
) -> None:
    """Convert a run to the format of another library and compare the outputs of both models."""
    from jumok.config_io import to_dict
    from jumok.export import export

    def show_progress(step: str) -> None:
        print_notice(f"{step} ...")

    result = export(run, to, out, quantize, show_progress)
    if as_json:
        fields = {"folder": str(result.folder), "to": result.to, "numbers": result.weight_type}
        print_json(fields | to_dict(result.report))
        return
    print_line(f"{result.folder}: {result.to} in {result.weight_type}")
    for line in result.report.lines():
        print_line(line)
