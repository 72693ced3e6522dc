"""`jumok evaluate`: exact JSON keys, user files in all formats, errors with line numbers."""

import json
from pathlib import Path

import pytest

import jumok
from jumok.config_io import to_dict
from jumok.native.choice import IN_TRAINING
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.load import load
from jumok.tasks.runs.train import train
from tests.cli.commands import call
from tests.tiny_runs import readings, reviews, write_tsv

Capture = pytest.CaptureFixture[str]
CLASSIFICATION = [
    *("task", "split", "n", "accuracy", "macro_f1", "calibration_error", "labels", "kernel")
]
SEQUENCES = [
    "task",
    "split",
    "n",
    "exact_match",
    "bleu",
    "chrf",
    "signature",
    "loops",
    "decoding",
    "kernel",
]


def test_the_test_split_of_the_recipe(capsys: Capture, review_run: Path) -> None:
    done = call(capsys, "evaluate", review_run, "--json")
    assert (done.code, done.err) == (0, "")
    (scores,) = done.rows
    assert list(scores) == CLASSIFICATION
    assert (scores["task"], scores["split"], scores["n"]) == ("classification", "test", 40)
    assert 0.0 <= scores["accuracy"] <= 1.0
    assert 0.0 <= scores["macro_f1"] <= 1.0
    results = json.loads((review_run / "results.json").read_text())
    assert {key: results[key] for key in CLASSIFICATION} == scores


def test_sequences(capsys: Capture, reading_run: Path) -> None:
    done = call(capsys, "evaluate", reading_run, "--json")
    (scores,) = done.rows
    assert list(scores) == SEQUENCES
    assert scores["decoding"] == "max_length=24"
    assert scores["kernel"] == to_dict(load(reading_run).kernel)
    results = json.loads((reading_run / "results.json").read_text())
    assert results["kernel"] == {
        "kernel": "torch",
        "precision": "float32",
        "reason": IN_TRAINING,
    }
    assert done.err == "decoding max_length=24\n"
    assert 0.0 <= scores["exact_match"] <= 1.0
    assert 0.0 <= scores["bleu"] <= 100.0
    assert 0.0 <= scores["chrf"] <= 100.0
    assert "BLEU" in scores["signature"]


def test_another_split(capsys: Capture, review_run: Path) -> None:
    (scores,) = call(capsys, "evaluate", review_run, "--split", "dev", "--json").rows
    assert (scores["split"], scores["n"]) == ("dev", 30)
    results = json.loads((review_run / "results.json").read_text())
    assert scores["accuracy"] == pytest.approx(results["dev"]["score"])
    done = call(capsys, "evaluate", review_run, "--split", "dev", "--data", "own.tsv")
    assert done.code == 2
    assert "use one of them" in done.err


def test_several_test_sets(capsys: Capture, tmp_path: Path, reading_recipe: Path) -> None:
    """One object: the first set, and the others in a list, each with all keys."""
    text = reading_recipe.read_text(encoding="utf-8")
    begin, end = text.index("[data]"), text.index("[vocabulary]")
    data = '[data]\ncorpus = "numbers"\ntrain_rows = 200\ndev_rows = 10\ntest_rows = 20\n\n'
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(text[:begin] + data + text[end:].replace("45", "1500"), encoding="utf-8")
    arguments = ("training.steps=2", "vocabulary.max_piece_length=1")  # size is a limit then
    done = call(capsys, "train", recipe, *arguments, "--out", tmp_path / "run", "--json")
    (scores,) = call(capsys, "evaluate", tmp_path / "run", "--json").rows
    assert list(scores) == [*SEQUENCES, "others"]
    splits = [scores["split"], *(other["split"] for other in scores["others"])]
    assert splits == ["test", "test_patterns", "test_sentences"]
    in_training = {"kernel": {**scores["kernel"], "kernel": "torch", "reason": IN_TRAINING}}
    assert all(list(other) == SEQUENCES for other in scores["others"])
    assert done.rows[0]["others"] == [other | in_training for other in scores["others"]]
    shown = call(capsys, "evaluate", tmp_path / "run").out
    assert shown.count("exact_match") == 3


def test_the_text_output(capsys: Capture, review_run: Path) -> None:
    done = call(capsys, "evaluate", review_run)
    scores, _, labels = done.out.partition("\n\n")
    lines = dict(line.split(maxsplit=1) for line in scores.splitlines())
    assert list(lines) == [name for name in CLASSIFICATION if name != "labels"]
    assert lines["n"] == "40"
    head, *rows = labels.splitlines()
    assert head.split() == ["n", "precision", "recall", "f1"]
    assert sum(int(row.split()[1]) for row in rows) == 40
    assert float(lines["accuracy"]) <= 1.0


@pytest.mark.parametrize("ending", ["tsv", "jsonl"])
def test_a_file_of_predictions(
    capsys: Capture, tmp_path: Path, review_run: Path, ending: str
) -> None:
    """One row for each row of the data; their accuracy is the score."""
    path = tmp_path / f"rows.{ending}"
    (scores,) = call(capsys, "evaluate", review_run, "--json", "--predictions", path).rows
    lines = path.read_text(encoding="utf-8").splitlines()
    if ending == "tsv":
        keys, *cells = (line.split("\t") for line in lines)
        rows = [dict(zip(keys, row, strict=True)) for row in cells]
    else:
        rows = [json.loads(line) for line in lines]
    assert list(rows[0]) == ["text", "label", "prediction", "probability"]
    assert len(rows) == scores["n"]
    right = sum(row["label"] == row["prediction"] for row in rows)
    assert right / len(rows) == pytest.approx(scores["accuracy"])
    assert sum(each["n"] for each in scores["labels"].values()) == len(rows)


def test_a_file_of_predictions_has_a_known_ending(capsys: Capture, review_run: Path) -> None:
    done = call(capsys, "evaluate", review_run, "--predictions", "rows.xlsx")
    assert (done.code, "must end in .tsv or .jsonl" in done.err) == (2, True)


def test_pairs_in_a_file(capsys: Capture, tmp_path: Path, reading_run: Path) -> None:
    rows = readings(20, 7)
    path = write_tsv(tmp_path / "pairs.tsv", ("source", "target"), rows)
    (scores,) = call(capsys, "evaluate", reading_run, "--data", path, "--json").rows
    answers = jumok.load(reading_run)([source for source, _ in rows])
    right = sum(a.output == target for a, (_, target) in zip(answers, rows, strict=True))
    assert scores["exact_match"] == pytest.approx(right / 20)
    assert scores["loops"] == sum(a.loop is not None for a in answers)


def test_a_recipe_without_a_test_split(
    capsys: Capture, tmp_path: Path, review_recipe: Path
) -> None:
    """Its dev split is what is reported at the end, and evaluate asks for one that is there."""
    arguments = ('data.test=""', "training.steps=2")
    done = call(capsys, "train", review_recipe, *arguments, "--out", tmp_path / "run", "--json")
    (results,) = done.rows
    assert results["split"] == "dev"
    done = call(capsys, "evaluate", tmp_path / "run")
    assert done.code == 2
    assert "no 'test' split; choose one of train, dev, or name a file" in done.err


def test_skipped_rows_are_reported(capsys: Capture, review_recipe: Path, tmp_path: Path) -> None:
    arguments = ["data.on_bad_rows=skip", "training.steps=2", "training.evaluate_every=2"]
    train(load_recipe(str(review_recipe), arguments), tmp_path / "run")
    rows = [*reviews(4, 5), ("뭐지", "글쎄")]
    path = write_tsv(tmp_path / "own.tsv", ("text", "label"), rows)
    capsys.readouterr()
    done = call(capsys, "evaluate", tmp_path / "run", "--data", path, "--json")
    assert (done.rows[0]["n"], done.rows[0]["skipped_rows"]) == (4, 1)
    assert "own.tsv:6: unknown label '글쎄'" in done.err
