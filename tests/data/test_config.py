"""The paths of data in a recipe and in a run."""

from pathlib import Path

import pytest

import jumok
from jumok.data.config import DataConfig
from jumok.data.load import load_splits

ROWS = "text\tlabel\n" + "".join(f"글 {n}\t{'가나'[n % 2]}\n" for n in range(40))


def test_relative_paths_start_at_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(ROWS, encoding="utf-8")
    splits = load_splits(DataConfig(train="a.tsv", folder=str(tmp_path)))
    assert len(splits.train) == 36


def test_parallel_and_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.ko").touch()
    (tmp_path / "a.en").touch()
    config = DataConfig(train=("a.ko", "a.en"), test=f"{tmp_path}/t.tsv")
    stored = config.of_run(tmp_path / "runs" / "a")
    assert (stored.folder, stored.train, stored.test) == ("../..", config.train, config.test)
    (tmp_path / "runs" / "a").mkdir(parents=True)
    found = stored.relocated(tmp_path / "runs" / "a")
    assert found.train == (f"{tmp_path}/a.ko", f"{tmp_path}/a.en")
    assert found == config.absolute()
    elsewhere = tmp_path / "moved" / "far" / "away"
    elsewhere.mkdir(parents=True)
    assert stored.relocated(elsewhere).train == config.train  # the working directory


def test_a_run_is_evaluated_and_resumed_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, other = tmp_path / "project", tmp_path / "other"
    project.mkdir()
    other.mkdir()
    (project / "훈련 데이터.tsv").write_text(ROWS, encoding="utf-8")
    (project / "r.toml").write_text(
        'task = "classification"\n[data]\ntrain = "훈련 데이터.tsv"\n'
        '[model]\ninit = ""\nd_model = 16\nn_heads = 2\nd_ff = 32\nn_layers = 1\n'
        "[vocabulary]\nsize = 27\n[training]\nsteps = 1\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(project)
    run = jumok.train("r.toml")
    scores = run.evaluate(split="dev")
    monkeypatch.chdir(other)
    assert jumok.evaluate(project / "runs" / "r", split="dev") == scores
    (project / "runs" / "r" / "results.json").unlink()
    assert jumok.resume(project / "runs" / "r").results["n"] == 4
