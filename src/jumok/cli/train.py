"""jumok train: a recipe becomes a run."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from jumok.tasks.runs.run import Run

# From 0 to 1, shown in per cent.
SHARES = ("accuracy", "macro_f1", "exact_match", "entity_f1", "character_f1")

PARTS = (2, 4, 8)  # processes that a model in parts is estimated for

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def train(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="A built-in name or a .toml file.")
    ] = None,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[key=value ...]", help="Laid over the recipe.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run's folder; runs/NAME if left out.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Go on with this run instead.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only measure what the training would cost.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="The results as one JSON line on stdout.")
    ] = False,
) -> None:
    """Train a recipe, score it once on the test split, and keep it all in the run's folder."""
    from jumok.errors import InputError
    from jumok.processes import is_main_process, report_errors_once
    from jumok.tasks.recipe.recipe import load_recipe
    from jumok.tasks.runs import train as training

    if dry_run:
        _estimate(recipe, words or [], resume, as_json=as_json)
        return
    if resume is not None:
        if recipe is not None or out is not None:
            raise InputError("--resume takes the run's own recipe and folder; name only the run")
        finished = training.resume(resume)
    elif recipe is None:
        raise InputError("no recipe was named; try jumok train numbers, or --resume RUN")
    else:
        with report_errors_once():
            plan = load_recipe(recipe, words or [])
        finished = training.train(plan, out or Path("runs") / plan.name)
    if not is_main_process():
        return
    if as_json:
        typer.echo(json.dumps(finished.results, ensure_ascii=False))
    else:
        _show(finished.run, finished.results)


def _estimate(recipe: str | None, words: list[str], resume: Path | None, *, as_json: bool) -> None:
    """What a recipe would cost on this machine."""
    from dataclasses import asdict

    from jumok.errors import InputError
    from jumok.tasks.dry_run import dry_run
    from jumok.tasks.recipe.recipe import load_recipe
    from jumok.training.reporting.metrics import clock

    if recipe is None or resume is not None:
        raise InputError("--dry-run measures a recipe; name one, without --resume")
    plan = load_recipe(recipe, words)
    found = dry_run(plan)
    parts = {n: found.bytes_per_rank(n) for n in PARTS if plan.training.sharding == "full"}
    if as_json:
        parted = {"bytes_per_rank": parts} if parts else {}
        typer.echo(json.dumps(asdict(found) | {"bytes": found.bytes} | parted))
        return
    for name, value in (
        ("parameters", f"{found.parameters:,}"),
        ("weights", _megabytes(found.weight_bytes)),
        ("gradients", _megabytes(found.gradient_bytes)),
        ("optimizer and average", _megabytes(found.optimizer_bytes)),
        ("activations, largest batch", _megabytes(found.activation_bytes)),
        ("copy for checkpoints", _megabytes(found.copy_bytes)),
        ("all of these together", _megabytes(found.bytes)),
        *((f"each of {n} processes", _megabytes(size)) for n, size in parts.items()),
        ("tokens an epoch", f"about {found.tokens_per_epoch:,}"),
        ("tokens a second, measured", f"{found.tokens_per_second:,.0f}"),
        ("steps", f"{found.steps:,}"),
        ("time of the steps", clock(found.seconds)),
    ):
        typer.echo(f"{name:<28}{value:>18}")
    typer.echo("Evaluations, the test and torch itself (some 400 MB) come on top.")


def _megabytes(size: int) -> str:
    return f"{size / 2**20:,.1f} MB"


def _show(run: "Run", results: dict[str, Any]) -> None:
    """The table of evaluations, the scores, some answers, and where everything is."""
    from rich.console import Console
    from rich.markup import escape

    from jumok.training.reporting.metrics import METRICS, evaluations, read_records, table
    from jumok.training.reporting.report import SCORES

    console = Console(soft_wrap=True, highlight=False)
    console.print(table(evaluations(read_records(run.folder / METRICS))))
    for scores in [results, *results["others"]]:
        shown = {name: _figure(name, scores[name]) for name in SCORES if name in scores}
        words = "  ".join(f"{name.replace('_', ' ')} {value}" for name, value in shown.items())
        console.print(f"[bold]{escape(scores['split'])}[/bold] ({scores['n']:,} rows)  {words}")
    _show_answers(run, console)
    console.print(
        f"{results['parameters']:,} weights, {results['wall_seconds']:,.0f} s, "
        f"{results['peak_memory_bytes'] / 2**20:,.0f} MB at most"
    )
    folder = escape(str(run.folder))
    console.print(f"All of it is in {folder}; open report.html there, or ask it something:")
    console.print(f'  jumok predict {folder} "..."')


def _figure(name: str, score: float) -> str:
    """A score as it is usually said."""
    if name in SHARES:
        return f"{score:.2%}"
    return f"{score:.4f}" if name in ("pearson", "spearman") else f"{score:.2f}"


def _show_answers(run: "Run", console: "Console") -> None:
    """A few answers to look at, and a picture of who looked where.

    What cannot be drawn is told: the training is over, and the run is whole.
    """
    from rich.markup import escape

    from jumok.errors import JumokError
    from jumok.tasks.runs.examples import examples
    from jumok.tasks.runs.load import load

    loaded = load(run.folder)
    texts = examples(loaded.recipe)
    if not texts:
        return
    for text, answer in zip(texts, loaded.answer(texts), strict=True):
        console.print(f"  {escape(text)}\n    [bold]{escape(answer.shown)}[/bold]")
    from jumok.viewer.attention import draw

    try:
        picture = draw(loaded, texts[0], run.folder / "attention.png")
    except JumokError as error:
        console.print(f"No picture of who looked where: {escape(str(error))}")
    else:
        console.print(f"Who looked where: {escape(str(picture))}")
