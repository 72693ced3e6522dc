"""jumok average: a new run with the mean weights of the last checkpoints of a run."""

from pathlib import Path
from typing import Annotated

import typer

from jumok.cli.options import json_option, run_argument
from jumok.language import translate
from jumok.terminal import print_json, print_line

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def average(
    run: Annotated[Path, run_argument("The folder of a finished run.")],
    last: Annotated[
        int, typer.Option(metavar="N", help="How many of the newest checkpoints to average.")
    ] = 2,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the new run. [default: RUN-last-N]"),
    ] = None,
    as_json: Annotated[bool, json_option("Print the results as one JSON object.")] = False,
) -> None:
    """Average the weights of the last checkpoints of a run and score the result on dev."""
    from jumok.tasks.runs import average_checkpoints as averaging

    finished = averaging.average_checkpoints(run, last, out or _default_output(run, last))
    results = finished.results
    if as_json:
        print_json(results)
        return
    steps = ", ".join(map(str, results["averaged_steps"]))
    print_line(translate("{}: average of steps {}", finished.run.folder, steps))
    for name, value in results["before"].items():
        if isinstance(value, float):
            template = "dev {:<12} {:.4f} before, {:.4f} averaged"
            print_line(translate(template, name, value, results[name]))


def _default_output(run: Path, last: int) -> Path:
    """RUN-last-N in the parent folder of the run, also for `.` and `..`.

    >>> _default_output(Path("runs/koen"), 2).as_posix()
    'runs/koen-last-2'
    """
    folder = run.resolve() if run.name in ("", "..") else run
    return folder.parent / f"{folder.name}-last-{last}"
