"""The code that the page quotes is the current code of the library."""

import json
from pathlib import Path

import pytest

from jumok.nn.attention import attention_scores
from web.scripts.sources import STEPS, TARGET, Snippet, sources

ROOT = Path(__file__).parents[2]


def test_the_page_quotes_the_current_code() -> None:
    kept = json.loads(TARGET.read_text(encoding="utf-8"))
    assert kept == sources(), "run: python web/scripts/sources.py, then build the page"


@pytest.mark.parametrize("step", STEPS)
def test_each_snippet_is_at_its_line(step: str) -> None:
    source = sources()[step]
    lines = (ROOT / "src" / source["file"]).read_text(encoding="utf-8").splitlines()
    code = source["code"].splitlines()
    there = lines[source["line"] - 1 : source["line"] - 1 + len(code)]
    assert [_without_comment(line) for line in there] == [_without_comment(line) for line in code]


def _without_comment(line: str) -> str:
    return line.partition("  #")[0].strip()


def test_a_missing_line_raises() -> None:
    with pytest.raises(LookupError, match="attention_scores has no line with 'sigmoid'"):
        Snippet(attention_scores, "sigmoid").source()
