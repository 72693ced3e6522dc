"""jumok table: mean and standard deviation of the scores of runs, for people and for papers."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jumok.cli.options import json_option, run_argument
from jumok.errors import UsageError
from jumok.language import translate
from jumok.terminal import pad, pad_left, print_json, print_line, print_message, text_width

if TYPE_CHECKING:
    from jumok.tasks.runs.score_table import Group, Score

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


@app.command()
def table(
    runs: Annotated[list[Path], run_argument("Finished runs.", metavar="RUN ...")],
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a Markdown table, the best in bold.")
    ] = False,
    latex: Annotated[
        bool, typer.Option("--latex", help="Print a LaTeX table (booktabs), the best in bold.")
    ] = False,
    as_json: Annotated[
        bool, json_option("Print one JSON object per group, the best marked.")
    ] = False,
) -> None:
    """Print the mean and the standard deviation of the test scores over seeds.

    Runs that differ only in the seed are a row; the values of the recipes that differ between the
    rows are columns. A score is best only if the test of jumok compare finds it better than every
    other row's, p < 0.05: for this the models predict the test split again.
    """
    if markdown + latex + as_json > 1:
        raise UsageError(
            "cli.one_table_format",
            "--markdown, --latex and --json are three formats; give one of them",
        )
    from jumok.config_io import to_dict
    from jumok.tasks.runs.score_table import score_table

    groups = score_table(runs, test=markdown or latex or as_json)
    if as_json:
        for group in groups:
            print_json(to_dict(group) | {"runs": [str(run) for run in group.runs]})
        return
    lines = (
        latex_table(groups)
        if latex
        else markdown_table(groups)
        if markdown
        else plain_table(groups)
    )
    for line in lines:
        print_line(line)
    if any(score.best for group in groups for score in group.scores.values()):
        print_message(
            "cli.bold_scores", "bold: better than every other row, p < 0.05 over seeds and rows"
        )


def _cells(
    groups: Sequence["Group"], plus_minus: str, bold: tuple[str, str]
) -> tuple[int, list[list[str]]]:
    """The header and a row for each group; the number of columns that hold recipe values."""
    from jumok.cli.train import PERCENT_METRICS

    metrics = list(dict.fromkeys(metric for group in groups for metric in group.scores))

    def shown(metric: str, score: "Score | None") -> str:
        if score is None:
            return ""
        factor = 100 if metric in PERCENT_METRICS else 1
        digits = 4 if metric in ("pearson", "spearman") else 2
        text = f"{score.mean * factor:.{digits}f}"
        if score.std is not None:
            text += f" {plus_minus} {score.std * factor:.{digits}f}"
        return f"{bold[0]}{text}{bold[1]}" if score.best else text

    names = [f"{name} (%)" if name in PERCENT_METRICS else name for name in metrics]
    rows = [[*groups[0].values, *names, translate("seeds")]]
    for group in groups:
        scores = [shown(metric, group.scores.get(metric)) for metric in metrics]
        rows.append([*group.values.values(), *scores, str(len(group.runs))])
    return len(groups[0].values), rows


def plain_table(groups: Sequence["Group"]) -> list[str]:
    """The lines of the table as text."""
    left, rows = _cells(groups, "±", ("", ""))
    widths = [max(map(text_width, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            pad(cell, width) if i < left else pad_left(cell, width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def markdown_table(groups: Sequence["Group"]) -> list[str]:
    """The lines of the table in Markdown."""
    left, rows = _cells(groups, "±", ("**", "**"))
    lines = ["| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows]
    rule = "|".join("---" if i < left else "---:" for i in range(len(rows[0])))
    return [lines[0], f"|{rule}|", *lines[1:]]


def latex_table(groups: Sequence["Group"]) -> list[str]:
    """The lines of the table in LaTeX, with the rules of booktabs."""
    left, rows = _cells(groups, "\0", ("\1", "\2"))
    columns = "l" * left + "r" * (len(rows[0]) - left)
    header, *body = (" & ".join(map(_escape_latex, row)) + r" \\" for row in rows)
    begin = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", header, r"\midrule"]
    return [*begin, *body, r"\bottomrule", r"\end{tabular}"]


def _escape_latex(text: str) -> str:
    r"""A cell in LaTeX, with what `latex_table` marks.

    >>> _escape_latex("model.d_model"), _escape_latex("\00186.4 \0 0.2\002")
    ('model.d\\_model', '\\textbf{86.4 $\\pm$ 0.2}')
    """
    text = re.sub(r"[\\~^&%$#_{}]", lambda found: _LATEX.get(found[0], f"\\{found[0]}"), text)
    return text.replace("\0", r"$\pm$").replace("\1", r"\textbf{").replace("\2", "}")
