"""jumok search: the lines of a file that are nearest to a text, by words and by meaning."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from jumok.cli.options import (
    DeviceOption,
    VectorPrecisionOption,
    find_engine,
    find_vector_engine,
    json_option,
    load_encoder,
    run_argument,
    with_fast_encoder,
)
from jumok.errors import UsageError
from jumok.language import translate
from jumok.shipped import complete_run
from jumok.terminal import print_json

if TYPE_CHECKING:
    from jumok.tasks.pipeline.reranking import Predictor

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def search(
    run: Annotated[Path, run_argument("A run, or the name of a model.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="One text per line.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text to look for.")],
    top: Annotated[int, typer.Option("--top", min=1, help="The number of lines.")] = 5,
    method: Annotated[
        Literal["hybrid", "vectors", "bm25"],
        typer.Option(
            "--method", help="Vectors, BM25 of character bigrams, or both by their ranks."
        ),
    ] = "hybrid",
    rerank: Annotated[
        Path | None,
        typer.Option(
            "--rerank",
            metavar="MODEL",
            autocompletion=complete_run,
            help="A model with one score for a pair of texts orders the best 30.",
        ),
    ] = None,
    precision: VectorPrecisionOption = None,
    device: DeviceOption = "auto",
    as_json: Annotated[bool, json_option("Print JSON lines.")] = False,
) -> None:
    """Print the nearest lines: score, line number, text. The vectors of FILE are cached."""
    from jumok.tasks.pipeline.hybrid_search import HybridIndex
    from jumok.tasks.pipeline.reranking import CANDIDATES, reranked
    from jumok.tasks.pipeline.vector_index import VectorIndex, encode_query

    def progress(done: int, n: int) -> None:
        if n > done or sys.stderr.isatty():
            print(translate("encoded {:,} of {:,} lines", done, n), file=sys.stderr)

    if not text.strip():
        raise UsageError(
            "cli.empty_query", "TEXT must be what to look for, got an empty text; try a word"
        )
    reranker = None if rerank is None else _open_reranker(rerank, device)
    engine = find_vector_engine(run, precision, device)
    if engine is not None:
        index = VectorIndex.build_with(engine.encode, engine.vector_key, file, progress)
        query = engine.encode([text])[0]
    else:
        pipeline, encoder = load_encoder(run, precision, device)
        index = VectorIndex.build(pipeline, file, progress, encoder=encoder)
        query = encode_query(encoder, text)
    n = top if rerank is None else max(top, CANDIDATES)
    matches = HybridIndex(index).search(text, query, n, method)
    if reranker is not None:
        matches = reranked(reranker, text, matches)[:top]
    for rank, match in enumerate(matches, 1):
        if as_json:
            print_json({"rank": rank, **asdict(match)})
        else:
            print(f"{match.score:7.4f}  {match.line:>7}  {match.text}")


def _open_reranker(model: Path, device: str) -> "Predictor":
    """The model of --rerank. Raises InputError for one without a score of two texts."""
    from jumok.tasks.pipeline.reranking import check_reranker

    found: Predictor | None = find_engine(model, None, device)
    if found is None:
        from jumok.tasks.runs.load import load

        found = with_fast_encoder(load(model, device), None)
    check_reranker(model, found)
    return found
