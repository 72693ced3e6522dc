"""The lines of code that the page shows are the library's, as they stand today."""

import json
from pathlib import Path

import pytest

from jumok.nn.attention import attention_scores
from jumok.viewer.lesson import STEPS, Passage, sources

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "web" / "src" / "views" / "calculation" / "sources.json"


def test_the_page_shows_the_lines_of_today() -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    assert kept == sources(), "run: python web/scripts/sources.py, then build the page"


@pytest.mark.parametrize("step", STEPS)
def test_each_passage_stands_where_it_says(step: str) -> None:
    source = sources()[step]
    lines = (ROOT / "src" / source["file"]).read_text(encoding="utf-8").splitlines()
    code = source["code"].splitlines()
    there = lines[source["line"] - 1 : source["line"] - 1 + len(code)]
    assert [_without_comment(line) for line in there] == [_without_comment(line) for line in code]


def _without_comment(line: str) -> str:
    return line.partition("  #")[0].strip()


def test_a_line_that_is_gone_is_noticed() -> None:
    with pytest.raises(LookupError, match="attention_scores has no line with 'sigmoid'"):
        Passage(attention_scores, "sigmoid").source()
