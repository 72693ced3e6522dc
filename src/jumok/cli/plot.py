"""jumok plot: pictures for papers and for people in a terminal."""

from pathlib import Path
from typing import Annotated

import typer

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
    length: Annotated[int, typer.Option(help="How many positions, at least 4.")] = 64,
    width: Annotated[int, typer.Option(help="How many dimensions, an even number.")] = 32,
) -> None:
    """Five ideas for saying where a token stands, and which of them one matrix can shift."""
    from jumok.typography import save
    from jumok.viewer.positional_ladder import positional_ladder

    save(positional_ladder(length, width), out)
    typer.echo(out)


@app.command()
def history(run: Run, out: Out = None) -> None:
    """Loss and score of a run over its epochs, also while it is still training."""
    from jumok.errors import InputError
    from jumok.training.curves import figure
    from jumok.training.history import METRICS, charts, read_records
    from jumok.typography import save

    if not (run / METRICS).is_file():
        raise InputError(f"{run} holds no {METRICS}; name a folder of jumok train")
    path = out or run / "history.png"
    save(figure(charts(read_records(run / METRICS)), run.resolve().name), path)
    typer.echo(path)


@app.command()
def attention(
    run: Run,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What the model is to read.")],
    layer: Annotated[int, typer.Option(help="From 0, or back from -1.")] = -1,
    head: Annotated[int | None, typer.Option(help="One head alone, from 0.")] = None,
    out: Out = None,
) -> None:
    """Who looks where: cross-attention of sequence models, the encoder's own of classifiers."""
    from jumok.tasks.loading import load
    from jumok.viewer.attention import draw

    typer.echo(draw(load(run), text, out or run / "attention.png", layer, head))
