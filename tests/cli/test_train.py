"""`jumok train`: files of a run, output, and invalid arguments."""

import json
import shutil
from pathlib import Path

import pytest

from jumok.cli import main
from jumok.errors import InputError
from jumok.tasks.recipe.recipe import load_recipe
from tests.cli.commands import call

Capture = pytest.CaptureFixture[str]
QUICK = ("training.steps=6", "training.evaluate_every=3", "training.log_every=2")
ALWAYS = {
    "kernel",
    "skipped_rows",
    "data_sha256",
    "name",
    "task",
    "split",
    "n",
    "others",
    "dev",
    "seed",
    "steps",
    "ended",
    "parameters",
    "training_seconds",
    "wall_seconds",
    "peak_memory_bytes",
    "skipped_steps",
    "versions",
    "method",
}


def test_the_files_of_a_run(
    capsys: Capture, tmp_path: Path, review_recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --out it is runs/NAME with all files; the scores are printed."""
    monkeypatch.chdir(tmp_path)
    done = call(capsys, "train", review_recipe, *QUICK, "seed=3")
    assert done.code == 0
    folder = tmp_path / "runs" / "reviews"
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "checkpoints",
        "config.json",
        "history.csv",
        "history.png",
        "metrics.jsonl",
        "model.safetensors",
        "recipe.toml",
        "report.html",
        "results.json",
        "vocabulary.model",
    }
    assert load_recipe(str(folder / "recipe.toml")).seed == 3
    assert "accuracy" in done.out
    assert "runs/reviews" in done.out
    assert "dev loss" in done.err
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [r["step"] for r in records if r["kind"] == "train"] == [2, 3, 4, 6]
    assert [r["step"] for r in records if r["kind"] == "dev"] == [3, 6]


def test_json_is_one_line_and_nothing_else(
    capsys: Capture, tmp_path: Path, review_recipe: Path
) -> None:
    done = call(capsys, "train", review_recipe, *QUICK, "--out", tmp_path / "run", "--json")
    assert done.code == 0
    (results,) = done.rows
    assert set(results) == ALWAYS | {"accuracy", "macro_f1", "calibration_error", "labels"}
    assert (results["task"], results["split"], results["n"]) == ("classification", "test", 40)
    assert (results["steps"], results["ended"], results["seed"]) == (6, "done", 0)
    assert results == json.loads((tmp_path / "run" / "results.json").read_text())
    assert set(results["dev"]) == {"metric", "score", "step"}


def test_a_failed_attention_plot_is_reported(
    capsys: Capture, tmp_path: Path, review_recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The training has succeeded; only the plot failed."""

    def draw(*given: object) -> None:
        raise InputError("test.error", "sequence 0 has no tokens to draw")

    monkeypatch.setattr("jumok.tasks.runs.examples.examples", lambda *_, **__: ["재미있어요"])
    monkeypatch.setattr("jumok.viewer.live_model.plot_attention", draw)
    done = call(capsys, "train", review_recipe, *QUICK, "--out", tmp_path / "run")
    assert done.code == 0
    assert "Attention plot failed: sequence 0 has no tokens to draw\n" in done.out
    assert "jumok predict" in done.out


def test_resuming_a_finished_run_prints_its_results(capsys: Capture, review_run: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in review_run.rglob("*")}
    done = call(capsys, "train", "--resume", review_run, "--json")
    assert done.code == 0
    assert done.rows == [json.loads((review_run / "results.json").read_text())]
    assert {path: path.stat().st_mtime_ns for path in review_run.rglob("*")} == before


def test_an_existing_run_is_not_overwritten(
    capsys: Capture, review_recipe: Path, review_run: Path
) -> None:
    done = call(capsys, "train", review_recipe, "--out", review_run)
    assert (done.code, done.out) == (2, "")
    assert f"{review_run} must not hold a run; resume it with jumok train --resume" in done.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "no recipe was given; try jumok train numbers, or --resume RUN"),
        (("numbres",), "got 'numbres' (did you mean numbers?)"),
        (("numbers", "training.stpes=3"), "training.stpes is not known; did you mean training.st"),
        (("numbers", "training.steps=many"), 'training.steps must be an integer, got "many"'),
        (("numbers", "hello"), "an override must be key=value, got 'hello'; write hello=VALUE"),
        (("numbers", "device=tpu"), "device must be auto or one of "),
        (("--resume", "nowhere"), "nowhere must be a run, got no such folder"),
        (("numbers", "--resume", "x"), "--resume takes no recipe and no --out"),
        (("--resume", "x", "--out", "y"), "--resume takes no recipe and no --out"),
    ],
)
def test_invalid_arguments_of_train(
    capsys: Capture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = call(capsys, "train", *arguments)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err
    assert done.err.startswith("jumok: ")
    assert list(tmp_path.iterdir()) == []


def test_bad_data_is_an_error_before_the_run(
    capsys: Capture, tmp_path: Path, review_recipe: Path
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(review_recipe.parent, folder)
    train = folder / "train.tsv"
    train.write_text(train.read_text() + "이 영화\tgood\n")
    text = review_recipe.read_text().replace(str(review_recipe.parent), str(folder))
    (folder / "recipe.toml").write_text(text + "\n[augmentation]\ntoken_dropout = 0.1\n")
    labels = ['data.labels=["negative", "positive"]']
    done = call(capsys, "train", folder / "recipe.toml", *labels, "--out", tmp_path / "run")
    assert done.code == 2
    assert f"{train}:122: " in done.err
    assert not (tmp_path / "run").exists()


def test_a_nonfinite_loss_exits_with_4(
    capsys: Capture, tmp_path: Path, review_recipe: Path
) -> None:
    """A decay that multiplies every weight by millions."""
    arguments = (
        "training.steps=100",
        "training.learning_rate=9",
        "training.weight_decay=1e6",
        "training.warmup_steps=0",
        "training.evaluate_every=1000",
    )
    done = call(capsys, "train", review_recipe, *arguments, "--out", tmp_path / "run")
    assert done.code == 4
    assert "the loss or a gradient is not finite, first in " in done.err
    assert "train again" in done.err
    with pytest.raises(SystemExit) as ended:
        main(["predict", str(tmp_path / "run"), "안녕"])
    assert ended.value.code == 2  # there is no model yet


def test_a_dry_run_creates_no_run(
    capsys: Capture, tmp_path: Path, review_recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (found,) = call(capsys, "train", review_recipe, *QUICK, "--dry-run", "--json").rows
    done = call(capsys, "train", review_recipe, *QUICK, "--out", "run", "--json")
    assert found["parameters"] == done.rows[0]["parameters"]
    assert found["steps"] == done.rows[0]["steps"]
    assert found["bytes"] > 16 * found["parameters"]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    output = call(capsys, "train", review_recipe, *QUICK, "--dry-run").out
    assert f"{found['parameters']:,}" in output
    assert "tokens per second" in output
    assert "per process" not in output
    sharded = call(capsys, "train", review_recipe, *QUICK, "training.sharding=full", "--dry-run")
    assert "per process, 4 processes" in sharded.out


def test_a_dry_run_is_of_a_recipe(capsys: Capture, tmp_path: Path) -> None:
    done = call(capsys, "train", "--dry-run", "--resume", tmp_path)
    assert done.code == 2
    assert "--dry-run needs a recipe" in done.err
