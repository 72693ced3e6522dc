"""jumok export: convert a run to the format of another library."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from jumok.cli import completion
from jumok.cli.options import json_option, run_argument
from jumok.language import localize, translate
from jumok.terminal import print_json, print_line, print_notice

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def export(
    run: Annotated[Path, run_argument()],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="New folder for the exported model.")],
    to: Annotated[
        str,
        typer.Option(
            metavar="FORMAT",
            autocompletion=completion.formats,
            help="hf, sentence-transformers, cross-encoder, peft, ctranslate2, onnx, gguf or web.",
        ),
    ],
    quantize: Annotated[
        Literal["int8", "f16", "bf16", "q8_0", "q4_0"] | None,
        typer.Option(
            help="Quantize the weights, to int8, or for gguf to one of the others; the change in "
            "scores is measured."
        ),
    ] = None,
    as_json: Annotated[bool, json_option("Print the report as one JSON object.")] = False,
) -> None:
    """Convert a run to the format of another library and compare the outputs of both models."""
    from jumok.config_io import to_dict
    from jumok.export import export

    def show_progress(step: str) -> None:
        print_notice(f"{localize(step)} ...")

    result = export(run, to, out, quantize, show_progress)
    if as_json:
        fields = {"folder": str(result.folder), "to": result.to, "numbers": result.weight_type}
        print_json(fields | to_dict(result.report))
        return
    print_line(translate("{}: {} in {}", result.folder, result.to, result.weight_type))
    for line in result.report.lines(_in_language):
        print_line(line)


def _in_language(template: str, *values: object) -> str:
    """A text of the report, with its values, in the language of the environment."""
    translated = (localize(v) if isinstance(v, str) else v for v in values)
    return translate(template, *translated)
