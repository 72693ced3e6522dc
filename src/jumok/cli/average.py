"""jumok average: the last checkpoints of a run become one run of their mean."""

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def average(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    last: Annotated[int, typer.Option(metavar="N", help="How many of its newest checkpoints.")] = 2,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The new run; RUN-last-N if left out.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="The results as one JSON line on stdout.")
    ] = False,
) -> None:
    """Average the last checkpoints of a run, and score that on the development split."""
    from jumok.tasks.runs import average_checkpoints as averaging

    finished = averaging.average(run, last, out or _beside(run, last))
    results = finished.results
    if as_json:
        typer.echo(json.dumps(results, ensure_ascii=False))
        return
    steps = ", ".join(map(str, results["averaged_steps"]))
    typer.echo(f"{finished.run.folder}: the mean of steps {steps}")
    for name, value in results["before"].items():
        if isinstance(value, float):
            typer.echo(f"dev {name:<12} {value:.4f} before, {results[name]:.4f} averaged")


def _beside(run: Path, last: int) -> Path:
    """RUN-last-N, also where the run is said to be here, or one above.

    >>> _beside(Path("runs/koen"), 2).as_posix()
    'runs/koen-last-2'
    """
    folder = run.resolve() if run.name in ("", "..") else run
    return folder.parent / f"{folder.name}-last-{last}"
