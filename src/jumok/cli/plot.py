"""jumok plot: figures of positional encodings, training history and attention."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jumok.cli.options import InputText, TargetOption, refuse_with_trace, run_argument
from jumok.errors import UsageError
from jumok.terminal import print_line

if TYPE_CHECKING:
    from jumok.interpret.trace import Trace
    from jumok.viewer.figures.options import Head

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    help="Plot positional encodings, a run's history, or attention.",
)

Run = Annotated[Path, run_argument()]
Out = Annotated[Path | None, typer.Option(metavar="FILE", help="Output file: .png, .svg or .pdf.")]


@app.command()
def positions(
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Output file: .png, .svg or .pdf.")
    ] = Path("positions.png"),
    length: Annotated[int, typer.Option(max=4096, help="Number of positions, at least 4.")] = 64,
    width: Annotated[
        int, typer.Option(max=4096, help="Number of dimensions, an even number.")
    ] = 32,
) -> None:
    """Compare five positional encodings: which of them can a single matrix shift?"""
    from jumok.fonts import save_figure
    from jumok.viewer.figures.positional_comparison import positional_comparison

    save_figure(positional_comparison(length, width), out)
    print_line(str(out))


@app.command()
def history(run: Run, out: Out = None) -> None:
    """Plot loss and dev score of a run; also works while it is training."""
    from jumok.fonts import save_figure
    from jumok.training.reporting.curves import draw_charts
    from jumok.training.reporting.metrics import METRICS, charts, read_records

    if not (run / METRICS).is_file():
        raise UsageError(
            "cli.no_such_file_in_run",
            "{run} has no {metrics}; give the folder of a training run",
            run=run,
            metrics=METRICS,
        )
    path = out or run / "history.png"
    save_figure(draw_charts(charts(read_records(run / METRICS)), run.resolve().name), path)
    print_line(str(path))


@app.command()
def attention(
    run: Annotated[Path, run_argument("A run, an imported model, or a trace file.")],
    text: InputText = None,
    target: TargetOption = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="attention, heads, lines, model, alignment, neuron, positions or explanation. "
            "[default: alignment for encoder-decoders, else heads]"
        ),
    ] = None,
    block: Annotated[
        str | None, typer.Option(help="encoder, decoder or cross. [default: the first]")
    ] = None,
    layer: Annotated[int, typer.Option(help="Layer, from 0; negative counts from the last.")] = -1,
    head: Annotated[
        str | None, typer.Option(metavar="N", help="One head, from 0, or mean or max over heads.")
    ] = None,
    query: Annotated[
        int | None,
        typer.Option(metavar="N", help="Query token to highlight (or to show, for neuron)."),
    ] = None,
    unit: Annotated[str, typer.Option(help="Merge tokens: piece, syllable or word.")] = "piece",
    specials: Annotated[
        str, typer.Option(help="Special tokens: plain, dim or renormalise.")
    ] = "plain",
    measure: Annotated[
        str, typer.Option(help="weights, or values: weights times value norms.")
    ] = "weights",
    width: Annotated[
        float | None,
        typer.Option(metavar="INCHES", help="Width: 3.3 for a column, 6.9 for a page."),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            help="Color scale: linear or sqrt. [default: sqrt from 129 tokens on, else linear]"
        ),
    ] = None,
    title: Annotated[bool, typer.Option(help="Draw a title that names the head.")] = True,
    out: Out = None,
) -> None:
    """Plot the attention of a run on a text, or of a saved trace."""
    from jumok.fonts import save_figure
    from jumok.viewer.figures.figure import default_kind

    chosen_head = _parse_head(head)
    trace = _trace(run, text, target, explain=kind == "explanation")
    figure = trace.figure(
        kind or default_kind(trace, chosen_head),
        block=block,
        layer=layer,
        head=chosen_head,
        query=query,
        unit=unit,
        specials=specials,
        measure=measure,
        width=width,
        scale=scale,
        title=title,
    )
    path = out or (run.with_suffix(".png") if run.is_file() else run / "attention.png")
    save_figure(figure, path)
    print_line(str(path))


def _trace(run: Path, text: str | None, target: str | None, *, explain: bool) -> "Trace":
    """A saved trace, or a new trace of the model on `text`."""
    if run.is_file():
        from jumok.interpret.trace import Trace

        refuse_with_trace(run, [text, target])
        return Trace.open(run)
    if text is None:
        raise UsageError(
            "cli.no_text_given", "no text was given for {run}; add it after the run", run=run
        )
    from jumok.interpret.tracing import trace
    from jumok.tasks.runs.load import load

    return trace(load(run), text, target, explain=explain)


def _parse_head(word: str | None) -> "Head | None":
    """Parse the --head option."""
    if word is None:
        return None
    if word == "mean":
        return "mean"
    if word == "max":
        return "max"
    if word.isascii() and word.isdecimal():
        return int(word)
    raise UsageError(
        "cli.head_option", "--head must be a number from 0, mean or max, got {word!r}", word=word
    )
