"""`jumok evaluate`: exact JSON keys, user files in all formats, errors with line numbers."""

import gzip
import json
import lzma
import shutil
from pathlib import Path

import pytest

import jumok
from jumok.config_io import to_dict
from jumok.native.choice import IN_TRAINING
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.load import load
from jumok.tasks.runs.train import train
from tests.cli.commands import call
from tests.tiny_runs import readings, reviews, write_reviews, write_tsv

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


def test_sequences_with_other_decoding_settings(capsys: Capture, reading_run: Path) -> None:
    arguments = ("--decoding", "beam=3", "--decoding", "length_penalty=0.5")
    done = call(capsys, "evaluate", reading_run, *arguments, "--json")
    (scores,) = done.rows
    ranking = "length_penalty=0.5 length_norm='power' early_stopping=False"
    assert scores["decoding"] == f"beam=3 {ranking} max_length=24"
    assert done.err == f"decoding {scores['decoding']}\n"
    done = call(capsys, "evaluate", reading_run, "--decoding", "baem=3")
    assert done.code == 2
    assert "decoding.baem is not known; did you mean decoding.beam?" in done.err


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


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_a_compressed_file(capsys: Capture, tmp_path: Path, review_run: Path, ending: str) -> None:
    rows = reviews(30, 9)
    plain = write_tsv(tmp_path / "내 평가.tsv", ("text", "label"), rows)
    path = plain.with_name(plain.name + ending)
    if ending:
        pack = {".gz": gzip.compress, ".xz": lzma.compress}[ending]
        path.write_bytes(pack(plain.read_bytes()))
    (scores,) = call(capsys, "evaluate", review_run, "--data", path, "--json").rows
    assert (scores["split"], scores["n"]) == (path.name, 30)
    answers = jumok.load(review_run)([text for text, _ in rows])
    right = sum(a.label == label for a, (_, label) in zip(answers, rows, strict=True))
    assert scores["accuracy"] == pytest.approx(right / 30)


def test_numbers_for_named_labels_are_refused_and_columns_have_any_order(
    capsys: Capture, tmp_path: Path, review_run: Path
) -> None:
    rows = reviews(30, 9)
    names = write_tsv(tmp_path / "names.tsv", ("text", "label"), rows)
    number = {"negative": "0", "positive": "1"}
    lines = ["id\tlabel\ttext"] + [f"{i}\t{number[y]}\t{x}" for i, (x, y) in enumerate(rows)]
    numbers = tmp_path / "numbers.txt"
    numbers.write_bytes("\r\n".join(lines).encode("utf-8-sig"))  # BOM, CRLF, no last line end
    (first,) = call(capsys, "evaluate", review_run, "--data", names, "--json").rows
    refused = call(capsys, "evaluate", review_run, "--data", numbers, "--json")
    assert (refused.code, refused.error) == (2, "file.labels_are_numbers")
    lines = ["id\tlabel\ttext"] + [f"{i}\t{y}\t{x}" for i, (x, y) in enumerate(rows)]
    numbers.write_bytes("\r\n".join(lines).encode("utf-8-sig"))
    (second,) = call(capsys, "evaluate", review_run, "--data", numbers, "--json").rows
    assert {**first, "split": ""} == {**second, "split": ""}


def test_quotes_are_ordinary_characters(capsys: Capture, tmp_path: Path, review_run: Path) -> None:
    rows = [('"이 영화', "positive"), ('재미"있어요"', "negative"), ('"', "negative")]
    path = write_tsv(tmp_path / "quoted.tsv", ("text", "label"), rows)
    (scores,) = call(capsys, "evaluate", review_run, "--data", path, "--json").rows
    assert scores["n"] == 3


def test_pairs_in_a_file(capsys: Capture, tmp_path: Path, reading_run: Path) -> None:
    rows = readings(20, 7)
    path = write_tsv(tmp_path / "pairs.tsv", ("source", "target"), rows)
    (scores,) = call(capsys, "evaluate", reading_run, "--data", path, "--json").rows
    answers = jumok.load(reading_run)([source for source, _ in rows])
    right = sum(a.output == target for a, (_, target) in zip(answers, rows, strict=True))
    assert scores["exact_match"] == pytest.approx(right / 20)
    assert scores["loops"] == sum(a.loop is not None for a in answers)


@pytest.mark.parametrize(
    ("content", "code", "sentence"),
    [
        (b"text\tlabel\n", 2, "own.tsv has no usable row"),
        (b"", 2, "must have a header line and rows"),
        (b"text\tscore\na\t1\n", 2, ":1: no column 'label' in the header (got 'text | score')"),
        (b"text\tlabel\na\tgood\n", 2, ":2: "),
        (b"text\tlabel\na\tpositive\n\tpositive\n", 2, ":3: "),  # an empty text
        (b"text\tlabel\na\tneutral\n", 2, ":2: "),
        (b"text\tlabel\na\n", 2, ":2: 1 cell, expected 2"),
        (b"text\tlabel\nok\tpositive\n\xff\xfe\tpositive\n", 2, ":3: byte 1 is not UTF-8"),
        (None, 3, "own.tsv cannot be read (No such file or directory); check the path"),
    ],
)
def test_errors_name_the_line(
    capsys: Capture,
    tmp_path: Path,
    review_run: Path,
    content: bytes | None,
    code: int,
    sentence: str,
) -> None:
    path = tmp_path / "own.tsv"
    if content is not None:
        path.write_bytes(content)
    done = call(capsys, "evaluate", review_run, "--data", path, "--json")
    assert (done.code, done.out) == (code, "")
    assert sentence in done.err


def test_an_unfinished_run(capsys: Capture, tmp_path: Path, review_run: Path) -> None:
    shutil.copy(review_run / "recipe.toml", tmp_path)
    done = call(capsys, "evaluate", tmp_path)
    assert done.code == 2
    assert f"has no model yet; finish it with jumok train --resume {tmp_path}" in done.err


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


def test_labels_are_those_of_the_run_without_its_training_file(
    capsys: Capture, tmp_path: Path
) -> None:
    recipe = write_reviews(tmp_path)
    arguments = ["training.steps=2", "training.evaluate_every=2"]
    train(load_recipe(str(recipe), arguments), tmp_path / "run")
    capsys.readouterr()
    before = call(capsys, "evaluate", tmp_path / "run", "--json").rows
    with (tmp_path / "train.tsv").open("a", encoding="utf-8") as file:
        file.write("그저 그래요\t그저\n")
    assert call(capsys, "evaluate", tmp_path / "run", "--json").rows == before
    with (tmp_path / "test.tsv").open("a", encoding="utf-8") as file:
        file.write("그저 그래요\t그저\n")
    done = call(capsys, "evaluate", tmp_path / "run")
    assert done.code == 2
    assert "unknown label '그저', expected one of" in done.err


def test_skipped_rows_are_reported(capsys: Capture, review_recipe: Path, tmp_path: Path) -> None:
    arguments = ["data.on_bad_rows=skip", "training.steps=2", "training.evaluate_every=2"]
    train(load_recipe(str(review_recipe), arguments), tmp_path / "run")
    rows = [*reviews(4, 5), ("뭐지", "글쎄")]
    path = write_tsv(tmp_path / "own.tsv", ("text", "label"), rows)
    capsys.readouterr()
    done = call(capsys, "evaluate", tmp_path / "run", "--data", path, "--json")
    assert (done.rows[0]["n"], done.rows[0]["skipped_rows"]) == (4, 1)
    assert "own.tsv:6: unknown label '글쎄'" in done.err
