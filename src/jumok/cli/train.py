"""jumok train: train a recipe, or resume a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from jumok.cli import completion
from jumok.cli.options import json_option
from jumok.errors import UsageError
from jumok.language import localize, translate
from jumok.shipped import complete_run
from jumok.terminal import command_line, make_console, pad, print_json, print_line

if TYPE_CHECKING:
    from rich.console import Console

    from jumok.tasks.runs.api import Run

# Scores from 0 to 1, printed in per cent.
PERCENT_METRICS = (
    *("accuracy", "macro_f1", "micro_f1", "exact_match"),
    *("entity_f1", "entity_micro_f1", "character_f1"),
)

SHARD_COUNTS = (2, 4, 8)  # process counts to estimate sharded training for

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def train(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE",
            autocompletion=completion.recipes,
            help="Name of a built-in recipe, or a .toml file.",
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[key=value ...]",
            autocompletion=completion.settings,
            help="Override recipe settings.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run. [default: runs/NAME]")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", autocompletion=complete_run, help="Resume this run."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only estimate memory and time.")
    ] = False,
    as_json: Annotated[bool, json_option("Print the results as one JSON object.")] = False,
    log: Annotated[
        Literal["tensorboard"] | None,
        typer.Option(help="Also write the curves to RUN/tensorboard; needs jumok[track]."),
    ] = None,
) -> None:
    """Train a recipe, score it on the test split, and save everything in the run's folder."""
    from jumok.processes import report_errors_once
    from jumok.ranks import is_main_process
    from jumok.tasks.recipe.recipe import load_recipe
    from jumok.tasks.runs import api
    from jumok.training.signals import end_with_parent

    end_with_parent()
    if dry_run:
        _estimate(recipe, overrides or [], resume, as_json=as_json)
        return
    callbacks = []
    if log is not None:
        from jumok.training.tensorboard import TensorBoard

        callbacks.append(TensorBoard())
    if resume is not None:
        if recipe is not None or out is not None:
            raise UsageError(
                "cli.resume_with_recipe", "--resume takes no recipe and no --out; give only the run"
            )
        run = api.resume(resume, callbacks=callbacks)
    elif recipe is None:
        raise UsageError(
            "cli.no_recipe_given", "no recipe was given; try jumok train numbers, or --resume RUN"
        )
    else:
        with report_errors_once():
            plan = load_recipe(recipe, overrides or [])
        run = api.train(plan, out=out, callbacks=callbacks)
    if not is_main_process():
        return
    if as_json:
        print_json(run.results)
    else:
        _print_results(run, run.results)


def _estimate(
    recipe: str | None, overrides: list[str], resume: Path | None, *, as_json: bool
) -> None:
    """Print the estimated memory and time of a recipe on this machine."""
    from dataclasses import asdict

    from jumok.tasks.recipe.recipe import load_recipe
    from jumok.tasks.runs.setup import dry_run
    from jumok.training.reporting.metrics import format_duration

    if recipe is None or resume is not None:
        raise UsageError("cli.dry_run_needs_recipe", "--dry-run needs a recipe and no --resume")
    plan = load_recipe(recipe, overrides)
    found = dry_run(plan)
    parts = {n: found.bytes_per_rank(n) for n in SHARD_COUNTS if plan.training.sharding == "full"}
    if as_json:
        parted = {"bytes_per_rank": parts} if parts else {}
        print_json(asdict(found) | {"bytes": found.bytes} | parted)
        return
    for name, value in (
        ("parameters", f"{found.parameters:,}"),
        ("weights", _megabytes(found.weight_bytes)),
        ("gradients", _megabytes(found.gradient_bytes)),
        ("optimizer and EMA", _megabytes(found.optimizer_bytes)),
        ("activations, largest batch", _megabytes(found.activation_bytes)),
        ("copy for checkpoints", _megabytes(found.copy_bytes)),
        ("total", _megabytes(found.bytes)),
        *(
            (translate("per process, {} processes", n), _megabytes(size))
            for n, size in parts.items()
        ),
        ("tokens per epoch", translate("about {:,}", found.tokens_per_epoch)),
        ("tokens per second", f"{found.tokens_per_second:,.0f}"),
        ("steps", f"{found.steps:,}"),
        ("training time", format_duration(found.seconds)),
    ):
        print_line(f"{pad(translate(name), 28)}{value:>18}")
    rest = "Not included: evaluation, the final test, and torch itself (about 400 MB)."
    print_line(translate(rest))


def _megabytes(size: int) -> str:
    return f"{size / 2**20:,.1f} MB"


def _print_results(run: "Run", results: dict[str, Any]) -> None:
    """Print the evaluations, the final scores, some predictions, and the run's folder."""
    from rich.text import Text

    from jumok.training.reporting.metrics import (
        METRICS,
        evaluation_table,
        evaluations,
        read_records,
    )
    from jumok.training.reporting.report import headline_metrics

    console = make_console()
    console.print(evaluation_table(evaluations(read_records(run.folder / METRICS))))
    for scores in [results, *results["others"]]:
        shown = {
            name: _format_score(name, scores[name]) for name in headline_metrics() if name in scores
        }
        text = "  ".join(f"{name.replace('_', ' ')} {value}" for name, value in shown.items())
        rows = translate("{:,} rows", scores["n"])
        console.print(Text(scores["split"], "bold") + Text(f" ({rows})  {text}"))
    _print_predictions(run, console)
    template = "{:,} parameters, {:,.0f} s, peak memory {:,.0f} MB"
    megabytes = results["peak_memory_bytes"] / 2**20
    print_line(translate(template, results["parameters"], results["wall_seconds"], megabytes))
    print_line(translate("Results: {}/report.html. Try the model:", run.folder))
    print_line(f'  {command_line("jumok", "predict", run.folder)} "..."')


def _format_score(name: str, score: float) -> str:
    """A score in its usual format."""
    if name in PERCENT_METRICS:
        return f"{score:.2%}"
    return f"{score:.4f}" if name in ("pearson", "spearman") else f"{score:.2f}"


def _print_predictions(run: "Run", console: "Console") -> None:
    """Print some predictions and save an attention plot.

    A failed plot is only reported: the training has finished.
    """
    from rich.text import Text

    from jumok.errors import JumokError
    from jumok.tasks.runs.examples import examples
    from jumok.tasks.runs.load import load

    pipeline = load(run.folder)
    texts = examples(pipeline.recipe.data.corpus, masked=pipeline.task.answer == "masks")
    if not texts:
        return
    for text, answer in zip(texts, pipeline.predict(texts), strict=True):
        console.print(Text(f"  {text}\n    ") + Text(answer.display, "bold"))
    if not pipeline.recipe.model.n_layers:
        return  # no attention
    from jumok.viewer.live_model import plot_attention

    try:
        picture = plot_attention(pipeline, texts[0], run.folder / "attention.png")
    except JumokError as error:
        print_line(translate("Attention plot failed: {}", localize(error)))
    else:
        print_line(translate("Attention plot: {}", picture))
