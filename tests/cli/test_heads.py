"""`jumok heads`: a row per head, as a table and as JSON."""

from pathlib import Path

import pytest

import jumok
from jumok.interpret.head_patterns import PATTERNS
from tests.cli.commands import call

Capture = pytest.CaptureFixture[str]


def test_a_row_per_head(capsys: Capture, review_run: Path, tmp_path: Path) -> None:
    texts = ("이 영화 이 영화 재미있어요", "연기가 지루해요")
    done = call(capsys, "heads", review_run, *texts, "--json")
    assert (done.code, done.err) == (0, "")
    assert [(row["block"], row["layer"], row["head"]) for row in done.rows] == [
        ("encoder", 0, 0),
        ("encoder", 0, 1),
    ]
    for row in done.rows:
        assert list(row) == ["block", "layer", "head", *PATTERNS]
        assert all(0 <= row[name] <= 1 for name in PATTERNS)
    table = call(capsys, "heads", review_run, *texts, "--sort", "separator").out.splitlines()
    assert table[0].split() == ["head", *PATTERNS]
    scores = [float(line.split()[1 + PATTERNS.index("separator")]) for line in table[1:]]
    assert scores == sorted(scores, reverse=True)
    path = jumok.trace(jumok.load(review_run), texts[0]).save(tmp_path / "a.safetensors")
    from_file = call(capsys, "heads", path, "--json").rows
    assert from_file == call(capsys, "heads", review_run, texts[0], "--json").rows


def test_all_blocks_of_an_encoder_decoder(capsys: Capture, reading_run: Path) -> None:
    rows = call(capsys, "heads", reading_run, "삼 일 삼 일", "--json").rows
    assert [row["block"] for row in rows] == ["encoder"] * 2 + ["decoder"] * 2 + ["cross"] * 2
    assert all(row["induction"] == 0 for row in rows if row["block"] == "cross")


def test_errors_and_the_notice(capsys: Capture, review_run: Path, tmp_path: Path) -> None:
    done = call(capsys, "heads", review_run, "연기가", "--sort", "seperator")
    assert (done.code, "did you mean separator?" in done.err) == (2, True)
    done = call(capsys, "heads", review_run, "음")
    assert "no token of the texts repeats" in done.err
    done = call(capsys, "heads", review_run, " ")
    assert (done.code, "must have at least one text, got none" in done.err) == (2, True)
    path = jumok.trace(jumok.load(review_run), "연기가").save(tmp_path / "a.safetensors")
    done = call(capsys, "heads", path, "연기가")
    assert (done.code, "is a trace and takes no text" in done.err) == (2, True)
