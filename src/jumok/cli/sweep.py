"""jumok sweep: train a grid of recipe values and seeds, and print the table of their scores."""

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jumok.cli import completion
from jumok.errors import JumokError, UsageError
from jumok.language import translate
from jumok.terminal import print_line, print_message

if TYPE_CHECKING:
    from jumok.tasks.runs.sweep import Training

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def sweep(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE",
            autocompletion=completion.recipes,
            help="Name of a built-in recipe, or a .toml file.",
        ),
    ],
    values: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[key=a,b,c ...]",
            autocompletion=completion.settings,
            help="Recipe settings with one value or several.",
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Seeds of each combination, from 0. [default: 3]")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the runs. [default: runs/NAME-sweep]")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Stop the sweep after this time; resumable.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Trainings at a time. [default: one per core]")
    ] = None,
) -> None:
    """Train every combination of the values with every seed, in parallel, as ordinary runs.

    The same command continues a sweep: finished runs are kept, stopped ones resume. A training that
    fails is reported and the others go on. At the end the table of `jumok table` is printed.
    """
    from jumok.cli.table import plain_table
    from jumok.tasks.runs.run import Run
    from jumok.tasks.runs.score_table import score_table
    from jumok.tasks.runs.sweep import LOG, plan_sweep, run_sweep
    from jumok.threads import compute_threads

    words = values or []
    if seeds is not None and any(word.startswith("seed=") for word in words):
        raise UsageError(
            "cli.seeds_given_twice", "seed=... and --seeds are the same; give one of them"
        )
    folder = out or Path("runs") / f"{Path(recipe).stem}-sweep"
    trainings = plan_sweep(recipe, words, seeds or 3, folder)
    failed = []

    def finished() -> list[Path]:
        return [each.folder for each in trainings if Run(each.folder).finished]

    def report(training: "Training", code: int) -> None:
        name, log = training.folder.name, training.folder / LOG
        if code == 0:
            print_line(f"{len(finished())}/{len(trainings)}  {name}")
        elif code not in (130, 143, -2, -15):  # stopped by the sweep
            failed.append(training)
            last = log.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
            print_message(
                "cli.training_failed",
                "{name} failed with exit code {code}: {last} (see {log})",
                name=name,
                code=code,
                last=last.removeprefix("jumok: "),
                log=log,
            )

    left = len(trainings) - len(finished())
    print_line(translate("{} of {} trainings are left, in {}", left, len(trainings), folder))
    if left:
        at_a_time = min(workers or compute_threads(), left)
        run_sweep(trainings, at_a_time, report, inf if minutes is None else minutes)
    if done := finished():
        for line in plain_table(score_table(done)):
            print_line(line)
    if failed:
        raise JumokError(
            "cli.trainings_failed",
            "{n} of {total} trainings failed; correct the cause, and repeat the command",
            n=len(failed),
            total=len(trainings),
        )
    if len(done) < len(trainings):
        print_message(
            "cli.sweep_not_finished",
            "{n} of {total} trainings are not finished; the same command continues",
            n=len(trainings) - len(done),
            total=len(trainings),
        )
