"""`jumok table`: plain, Markdown, LaTeX and JSON."""

from pathlib import Path

import pytest

from jumok.cli.table import latex_table, markdown_table, plain_table
from jumok.tasks.runs.score_table import Group, Score
from tests.cli.commands import call

Capture = pytest.CaptureFixture[str]
GROUPS = [
    Group(
        {"model.init": "ko|small", "name": "a_b"},
        [Path("a"), Path("b")],
        {"accuracy": Score(0.864, 0.0021, best=True), "bleu": Score(30.0, 0.5)},
    ),
    Group({"model.init": "", "name": "긴 이름"}, [Path("c")], {"accuracy": Score(0.5, None)}),
]


def test_plain() -> None:
    assert plain_table(GROUPS) == [
        "model.init  name     accuracy (%)          bleu  seeds",
        "ko|small    a_b      86.40 ± 0.21  30.00 ± 0.50      2",
        "            긴 이름         50.00                    1",
    ]


def test_markdown() -> None:
    assert markdown_table(GROUPS) == [
        "| model.init | name | accuracy (%) | bleu | seeds |",
        "|---|---|---:|---:|---:|",
        r"| ko\|small | a_b | **86.40 ± 0.21** | 30.00 ± 0.50 | 2 |",
        "|  | 긴 이름 | 50.00 |  | 1 |",
    ]


def test_latex() -> None:
    assert latex_table(GROUPS) == [
        r"\begin{tabular}{llrrr}",
        r"\toprule",
        r"model.init & name & accuracy (\%) & bleu & seeds \\",
        r"\midrule",
        r"ko|small & a\_b & \textbf{86.40 $\pm$ 0.21} & 30.00 $\pm$ 0.50 & 2 \\",
        r" & 긴 이름 & 50.00 &  & 1 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_the_command(review_run: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    done = call(capsys, "table", review_run)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0].split() == [
        *("name", "accuracy", "(%)", "macro_f1", "(%)", "seeds")
    ]
    (row,) = call(capsys, "table", review_run, "--json").rows
    assert row["values"] == {"name": "reviews"}
    assert row["runs"] == [str(review_run)]
    assert row["scores"]["accuracy"]["best"] is False
    assert "std" not in row["scores"]["accuracy"]
    monkeypatch.setenv("JUMOK_LANG", "ko")
    assert "시드" in call(capsys, "table", review_run, "--markdown").out
    assert call(capsys, "table", review_run, "--latex", "--markdown").error == (
        "cli.one_table_format"
    )
