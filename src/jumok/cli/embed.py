"""jumok embed: one vector per line, as JSON lines or a .npy file."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from jumok.cli.options import (
    DeviceOption,
    VectorPrecisionOption,
    find_vector_engine,
    load_encoder,
    run_argument,
)
from jumok.terminal import print_json

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def embed(
    run: Annotated[Path, run_argument("A run, or the name of a model.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="A .npy file. [default: JSON lines on stdout]"),
    ] = None,
    pooling: Annotated[
        str | None, typer.Option(help="first, mean, max or last. [default: the model's own]")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Do not divide by the length.")] = False,
    prompt: Annotated[str, typer.Option(metavar="NAME", help="A prompt of the model.")] = "",
    precision: VectorPrecisionOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Encode the lines of stdin: float32 vectors (lines, width), in order."""
    from jumok.cli.stdin import read_lines
    from jumok.tasks.pipeline.text_inputs import check_pooling
    from jumok.tasks.pipeline.vector_index import save_vectors

    engine = None if prompt else find_vector_engine(run, precision, device)
    encoder = None if engine is not None else load_encoder(run, precision, device)[1]
    texts = list(read_lines())
    kind = None if pooling is None else check_pooling(pooling)
    if engine is not None:
        vectors = engine.encode(texts, pooling=kind, normalize=not raw)
    else:
        assert encoder is not None
        vectors = encoder.encode(texts, pooling=kind, normalize=not raw, prompt_name=prompt)
    if out is None:
        for text, vector in zip(texts, vectors.tolist(), strict=True):
            print_json({"text": text, "embedding": vector})
        return
    save_vectors(vectors, out)
    print(f"{out}  {vectors.shape[0]:,} x {vectors.shape[1]}", file=sys.stderr)
