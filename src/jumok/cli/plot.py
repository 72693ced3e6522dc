"""jumok plot: pictures for papers and for people in a terminal."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from jumok.interpret.trace import Trace
    from jumok.viewer.figures.options import Head

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    help="Pictures: the positional ideas, a run's history, the attention to a text.",
)

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
Out = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Where to, ending in .png, .svg or .pdf.")
]


@app.command()
def positions(
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Where to, ending in .png, .svg or .pdf.")
    ] = Path("positions.png"),
    length: Annotated[int, typer.Option(max=4096, help="How many positions, at least 4.")] = 64,
    width: Annotated[int, typer.Option(max=4096, help="Dimensions, an even number.")] = 32,
) -> None:
    """Five ideas for saying where a token stands, and which of them one matrix can shift."""
    from jumok.fonts import save_figure
    from jumok.viewer.figures.positional_comparison import positional_ladder

    save_figure(positional_ladder(length, width), out)
    typer.echo(os.fsencode(out))


@app.command()
def history(run: Run, out: Out = None) -> None:
    """Loss and score of a run over its epochs, also while it is still training."""
    from jumok.errors import InputError
    from jumok.fonts import save_figure
    from jumok.training.reporting.curves import figure
    from jumok.training.reporting.metrics import METRICS, charts, read_records

    if not (run / METRICS).is_file():
        raise InputError(f"{run} holds no {METRICS}; name a folder of jumok train")
    path = out or run / "history.png"
    save_figure(figure(charts(read_records(run / METRICS)), run.resolve().name), path)
    typer.echo(os.fsencode(path))


@app.command()
def attention(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run, an imported model, or a trace's file.")
    ],
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="What the model is to read.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What it is to write, given, not chosen.")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="attention, heads, lines, model, alignment, neuron, positions or explanation. "
            "[default: alignment, or heads]"
        ),
    ] = None,
    block: Annotated[str | None, typer.Option(help="encoder, decoder or cross.")] = None,
    layer: Annotated[int, typer.Option(help="From 0, or back from -1.")] = -1,
    head: Annotated[
        str | None, typer.Option(metavar="N", help="One head alone, from 0; or mean, or max.")
    ] = None,
    query: Annotated[
        int | None, typer.Option(metavar="N", help="A piece that asks: framed; shown by neuron.")
    ] = None,
    unit: Annotated[str, typer.Option(help="piece, syllable or word.")] = "piece",
    specials: Annotated[str, typer.Option(help="plain, dim or renormalise.")] = "plain",
    measure: Annotated[str, typer.Option(help="weights, or values: what arrives.")] = "weights",
    width: Annotated[
        float | None, typer.Option(metavar="INCHES", help="3.3: a column, 6.9: a page.")
    ] = None,
    title: Annotated[bool, typer.Option(help="Say above which head it is.")] = True,
    out: Out = None,
) -> None:
    """Who looks where: of a run while it reads a text, or of a trace that was kept."""
    from jumok.fonts import save_figure
    from jumok.viewer.figures.figure import figure_of, first_kind

    place = _head(head)
    trace = _trace(run, text, target, explain=kind == "explanation")
    figure = figure_of(
        trace,
        kind or first_kind(trace, place),  # type: ignore[arg-type]  # words are checked there
        block=block,
        layer=layer,
        head=place,
        query=query,
        unit=unit,  # type: ignore[arg-type]
        specials=specials,  # type: ignore[arg-type]
        measure=measure,  # type: ignore[arg-type]
        width=width,
        title=title,
    )
    path = out or (run.with_suffix(".png") if run.is_file() else run / "attention.png")
    save_figure(figure, path)
    typer.echo(os.fsencode(path))


def _trace(run: Path, text: str | None, target: str | None, *, explain: bool) -> "Trace":
    """The trace in a file, or that of a text being read."""
    from jumok.errors import InputError

    if run.is_file():
        from jumok.interpret.trace import Trace

        if text is not None or target is not None:
            raise InputError(
                f"{run} is a trace, its text was read; leave the text out, or name a run"
            )
        return Trace.open(run)
    if text is None:
        raise InputError(f"no text came for {run} to read; add it behind the run")
    from jumok.interpret.tracing import trace
    from jumok.tasks.runs.load import load

    return trace(load(run), text, target, explain=explain)


def _head(word: str | None) -> "Head | None":
    """A head as it is typed."""
    from jumok.errors import InputError

    if word is None:
        return None
    if word == "mean":
        return "mean"
    if word == "max":
        return "max"
    if word.isascii() and word.isdecimal():
        return int(word)
    raise InputError(f"head {word!r}; give its number from 0, mean or max")
