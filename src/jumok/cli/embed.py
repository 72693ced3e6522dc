"""jumok embed: one vector per line, as a .npy file."""

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def embed(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run, or the name of a model.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The .npy file.")],
    pooling: Annotated[
        str | None, typer.Option(help="first, mean, max or last. [default: the model's own]")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Do not divide by the length.")] = False,
    prompt: Annotated[str, typer.Option(metavar="NAME", help="A prompt of the model.")] = "",
) -> None:
    """Encode the lines of stdin: float32 vectors (lines, width), in order."""
    import jumok
    from jumok.cli.stdin import read_lines
    from jumok.tasks.pipeline.text_vectors import check_pooling
    from jumok.tasks.pipeline.vector_index import save_vectors

    pipeline = jumok.load(run)
    vectors = pipeline.encode(
        list(read_lines()),
        pooling=None if pooling is None else check_pooling(pooling),
        normalize=not raw,
        prompt_name=prompt,
    )
    save_vectors(vectors, out)
    print(f"{out}  {vectors.shape[0]:,} x {vectors.shape[1]}", file=sys.stderr)
