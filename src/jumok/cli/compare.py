"""jumok compare: the scores of runs on the same rows, and how certain their difference is."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from jumok.cli.options import json_option, run_argument
from jumok.errors import UsageError
from jumok.language import translate
from jumok.shipped import complete_run
from jumok.terminal import pad, print_json, print_line

if TYPE_CHECKING:
    from jumok.tasks.runs.compare import Comparison

app = typer.Typer(rich_markup_mode=None, add_completion=False)


class _Groups(TyperCommand):
    """Reads every word after `--with`, up to the next option, as one of its runs: `--with b-*`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words, in_group = [], False
        for word in args:
            if word.startswith("-"):
                in_group = word == "--with"
                words += [] if in_group else [word]
            else:
                words += ["--with", word] if in_group else [word]
        return super().parse_args(ctx, words)


@app.command(cls=_Groups)
def compare(
    runs: Annotated[list[Path], run_argument("Runs, of one recipe or several.", metavar="RUN ...")],
    others: Annotated[
        list[Path] | None,
        typer.Option(
            "--with",
            metavar="RUN ...",
            autocompletion=complete_run,
            help="The runs of the second recipe; those before it are the first.",
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="TSV, CSV or JSON file with the columns of the runs' data.")
    ] = None,
    split: Annotated[str, typer.Option(help="Split of the first run's data.")] = "dev",
    show: Annotated[int, typer.Option(min=0, help="The number of differing rows.")] = 10,
    as_json: Annotated[
        bool, json_option("Print one JSON object per comparison, with all rows.")
    ] = False,
) -> None:
    """Compare each recipe with the first, and list the rows on which they differ.

    The runs of a recipe differ only in the seed, or are grouped by --with. With two runs or more of
    each recipe the test counts the variance between seeds and between rows. A single run of a side
    decides nothing about its recipe: then it is the paired bootstrap about these models.
    """
    import jumok
    from jumok.config_io import to_dict
    from jumok.tasks.runs.compare import check_comparable, compare, group_by_seed
    from jumok.tasks.runs.evaluate import evaluation_tables, report_bad_rows
    from jumok.tasks.runs.own_data import table_of

    runs = [*runs, *(others or ())]
    if len(runs) < 2:
        raise UsageError(
            "cli.compare_needs_two_runs",
            "compare needs at least two runs, got one; use jumok evaluate",
        )
    pipelines = [jumok.load(run) for run in runs]
    check_comparable(pipelines)
    first = pipelines[0]
    if data is None:
        ((name, table),) = evaluation_tables(first.recipe, split, first.labels).items()
    else:
        name = data.name
        table = table_of(data, first.recipe, first.labels, first.paired_columns)
    report_bad_rows([table])
    groups = group_by_seed([pipeline.recipe for pipeline in pipelines])
    if others:
        start = len(runs) - len(others)
        groups = [[*range(start)], [*range(start, len(runs))]]
    elif len(groups) == 1:  # runs of one recipe are compared as models
        groups = [[index] for index in range(len(runs))]
    baseline, *rest = groups
    for number, other in enumerate(rest):
        found = compare([pipelines[i] for i in baseline], [pipelines[i] for i in other], table)
        names = [[str(runs[i]) for i in group] for group in (baseline, other)]
        if as_json:
            systems = {"first": names[0], "second": names[1], "split": name}
            differences = {
                metric: {**to_dict(value), "difference": value.difference}
                for metric, value in found.metrics.items()
            }
            print_json({**systems, **to_dict(found), "metrics": differences})
            continue
        if number:
            print_line("")
        for line in _lines(found, names, name, show):
            print_line(line)


def _lines(found: "Comparison", names: Sequence[Sequence[str]], split: str, show: int) -> list[str]:
    """The comparison as text: systems, metrics, rows."""
    lines = [f"{mark}  {', '.join(group)}" for mark, group in zip("AB", names, strict=True)]
    lines.append(translate("{:,} rows of {}", found.n, split))
    interval = translate("95 % interval          p")
    lines.append(f"{'':<12} {'A':>9} {'B':>9} {'B - A':>9}   {interval}")
    for metric, value in found.metrics.items():
        lines.append(
            f"{metric:<12} {value.first:9.4f} {value.second:9.4f} {value.difference:+9.4f}   "
            f"{value.low:+.4f} … {value.high:+.4f}   "
            f"{f'{value.p:.3f}' if value.p >= 0.001 else '<0.001':>6}"
        )
    lines.append(
        translate(
            "A recipe cannot be judged by a single run: this is about these models only (paired "
            "bootstrap over rows); train both recipes with more seeds, as jumok sweep does."
        )
        if found.about == "models"
        else translate("This is about the recipes: the test counts seeds and rows.")
    )
    lines.append(translate("{:,} rows with different outputs", len(found.different)))
    for row in found.different[:show]:
        lines += [
            f"{row.row:>6}  {row.text}",
            f"        {pad(translate('expected'), 8)} {row.expected}",
        ]
        lines += [f"        A        {row.first}", f"        B        {row.second}"]
    return lines
