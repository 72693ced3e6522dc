"""jumok compare: the scores of runs on the same rows, and how certain their difference is."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jumok.errors import UsageError
from jumok.language import translate
from jumok.shipped import complete_run
from jumok.terminal import pad, print_json, print_line

if TYPE_CHECKING:
    from jumok.tasks.runs.compare import Comparison

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN RUN ...", autocompletion=complete_run, help="Two runs or more."
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(help="TSV, CSV or JSON file with the columns of the runs' data."),
    ] = None,
    split: Annotated[str, typer.Option(help="Split of the first run's data.")] = "dev",
    show: Annotated[int, typer.Option(min=0, help="The number of differing rows.")] = 10,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per comparison, with all rows.")
    ] = False,
) -> None:
    """Compare each system with the first: paired bootstrap, and the rows on which they differ.

    Runs whose recipes differ only in the seed are one system: their mean score counts.
    """
    import jumok
    from jumok.config_io import to_dict
    from jumok.data.table_files import evaluation_table
    from jumok.tasks.runs.compare import check_comparable, compare, group_by_seed
    from jumok.tasks.runs.evaluate import evaluation_tables, report_bad_rows

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
        table = evaluation_table(data, first.recipe.data, first.recipe.columns, first.labels)
    report_bad_rows([table])
    baseline, *others = group_by_seed(pipelines)
    for number, other in enumerate(others):
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
    interval = translate("95 % of resamples      p")
    lines.append(f"{'':<12} {'A':>9} {'B':>9} {'B - A':>9}   {interval}")
    for metric, value in found.metrics.items():
        lines.append(
            f"{metric:<12} {value.first:9.4f} {value.second:9.4f} {value.difference:+9.4f}   "
            f"{value.low:+.4f} … {value.high:+.4f}    {value.p:.3f}"
        )
    lines.append(translate("{:,} rows with different outputs", len(found.different)))
    for row in found.different[:show]:
        lines += [
            f"{row.row:>6}  {row.text}",
            f"        {pad(translate('expected'), 8)} {row.expected}",
        ]
        lines += [f"        A        {row.first}", f"        B        {row.second}"]
    return lines
