"""`jumok average`: the average of the last checkpoints of a run."""

from pathlib import Path

import pytest

from tests.cli.commands import call

Capture = pytest.CaptureFixture[str]


def test_the_default_output_folder(
    capsys: Capture, tmp_path: Path, reading_recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("training.steps=4", "training.evaluate_every=2")
    call(capsys, "train", reading_recipe, *arguments, "--out", tmp_path / "run", "--json")
    done = call(capsys, "average", tmp_path / "run", "--last", 2)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{tmp_path / 'run-last-2'}: average of steps 2, 4\n")
    assert "dev bleu" in done.out
    for here, run in ("run", "."), ("run/checkpoints", ".."):
        monkeypatch.chdir(tmp_path / here)
        done = call(capsys, "average", run, "--last", 2)
        assert (done.code, "run-last-2 must not hold a run" in done.err) == (2, True)
    done = call(capsys, "average", "/", "--last", 2)
    assert (done.code, "/ must be a run" in done.err) == (2, True)
    assert call(capsys, "predict", tmp_path / "run-last-2", "삼 일", "--json").rows
    arguments = ("--last", 2, "--out", tmp_path / "again", "--json")
    (results,) = call(capsys, "average", tmp_path / "run", *arguments).rows
    assert results["averaged_steps"] == [2, 4]
    done = call(capsys, "train", "--resume", tmp_path / "again")
    assert done.code == 2
    assert "got an average of checkpoints" in done.err
    done = call(capsys, "average", tmp_path / "run", "--last", 5)
    assert done.code == 2
    assert "must be at least 2 and at most 2, got 5; as many as the run keeps" in done.err
