"""jumok evaluate: how good a run is."""

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    data: Annotated[
        Path | None,
        typer.Option(help="A TSV with a header line and the recipe's columns, also .gz or .xz."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Score a run on the test split of its recipe, or on a file."""
    from jumok.data.corpora import evaluation_table, load_splits
    from jumok.tasks.loading import load
    from jumok.tasks.scoring import score

    loaded = load(run)
    recipe = loaded.recipe
    columns = loaded.task.columns(recipe)
    if data is None:
        split, table = "test", load_splits(recipe.data, columns, only=["test"]).test
    else:
        split = data.name
        table = evaluation_table(data, recipe.data, columns, loaded.labels)
    scores = score(loaded, table, split).scores
    if as_json:
        typer.echo(json.dumps(scores, ensure_ascii=False))
        return
    for name, value in scores.items():
        typer.echo(f"{name:<12} {value:.4f}" if isinstance(value, float) else f"{name:<12} {value}")
