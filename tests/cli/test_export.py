"""`jumok export`."""

from pathlib import Path

import pytest

from tests.cli.commands import call

Capture = pytest.CaptureFixture[str]


def test_an_export_as_text_and_as_json(capsys: Capture, reading_run: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    arguments = ("export", reading_run, "--to", "ctranslate2")
    done = call(capsys, *arguments, tmp_path / "out")
    assert (done.code, done.err) == (0, "converting ...\ncomparing all 30 rows of dev ...\n")
    first, difference, *searches = done.out.splitlines()
    assert first == f"{tmp_path / 'out'}: ctranslate2 in float32"
    assert difference.startswith(
        "difference   log p of every token of all 30 rows of dev: at most "
    )
    assert searches[0].startswith("greedy       30 of 30 texts equal")
    (row,) = call(capsys, *arguments, tmp_path / "again", "--quantize", "int8", "--json").rows
    assert row["folder"] == str(tmp_path / "again")
    assert row["numbers"] == "int8"
    assert row["compared"]["difference"] <= 1e-4
    assert row["int8"]["after"].keys() == row["int8"]["before"].keys()


def test_an_unsupported_model(capsys: Capture, reading_run: Path, tmp_path: Path) -> None:
    done = call(capsys, "export", reading_run, "--to", "onnx", tmp_path / "out")
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert "use --to hf or ctranslate2" in done.err
    assert call(capsys, "export", reading_run, tmp_path / "out").code == 2
