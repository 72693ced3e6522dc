"""jumok.train, evaluate and Run: the same weights from every kind of data."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import jumok
from jumok.errors import InputError
from jumok.tasks.recipe.recipe import load_recipe
from tests.cli.commands import call
from tests.combinations import slow
from tests.errors import raises
from tests.tiny_runs import reviews, write_reviews

SHORT = {"training__steps": 6, "training__evaluate_every": 3, "training__warmup_steps": 1}
TRAIN, DEV, TEST = reviews(120, 0), reviews(30, 1), reviews(40, 2)


def columns(rows: list[tuple[str, str]]) -> dict[str, list[str]]:
    return {"text": [row[0] for row in rows], "label": [row[1] for row in rows]}


def a_dataset(rows: list[tuple[str, str]]) -> Any:
    import datasets

    return datasets.Dataset.from_dict(columns(rows))


KINDS = {
    "tuples": lambda rows: rows,
    "dicts": lambda rows: [{"label": label, "text": text} for text, label in rows],
    "pandas": lambda rows: pd.DataFrame(columns(rows)),
    "polars": lambda rows: pl.DataFrame(columns(rows)),
    "arrow": lambda rows: pa.table(columns(rows)),
    "datasets": a_dataset,
}


@pytest.fixture(scope="module")
def from_files(tmp_path_factory: pytest.TempPathFactory) -> jumok.Run:
    folder = tmp_path_factory.mktemp("files")
    return jumok.train(write_reviews(folder), out=folder / "run", **SHORT)


@pytest.mark.parametrize(
    "kind", ["tuples", "pandas", "arrow", slow("dicts"), slow("polars"), slow("datasets")]
)
def test_every_kind_of_data_gives_the_same_weights(
    kind: str, from_files: jumok.Run, tmp_path: Path
) -> None:
    data, dev, test = (KINDS[kind](rows) for rows in (TRAIN, DEV, TEST))
    run = jumok.train(
        from_files.folder.parent / "recipe.toml",
        data=data, dev=dev, test=test, out=tmp_path / "run", **SHORT,
    )  # fmt: skip
    weights = (run.folder / "model.safetensors").read_bytes()
    assert weights == (from_files.folder / "model.safetensors").read_bytes()
    assert run.results["accuracy"] == from_files.results["accuracy"]
    assert run.evaluate(test)["accuracy"] == run.results["accuracy"]


@pytest.mark.slow
def test_the_command_line_gives_the_same_weights(
    from_files: jumok.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"{name.replace('__', '.')}={value}" for name, value in SHORT.items()]
    recipe = from_files.folder.parent / "recipe.toml"
    done = call(capsys, "train", recipe, *words, "--out", tmp_path / "run", "--json")
    assert done.code == 0
    weights = (tmp_path / "run/model.safetensors").read_bytes()
    assert weights == (from_files.folder / "model.safetensors").read_bytes()


def test_data_in_memory_are_kept_with_their_checksum(tmp_path: Path) -> None:
    recipe = load_recipe(str(write_reviews(tmp_path)))
    run = jumok.train(recipe, data=TRAIN, dev=DEV, test=TEST, out=tmp_path / "run", **SHORT)
    moved = tmp_path / "elsewhere"
    shutil.move(run.folder, moved)
    data = jumok.Run(moved).recipe.data
    assert data.train == str(moved / "data/train.jsonl")
    assert set(data.sha256) == {"train", "dev", "test"}
    again = jumok.evaluate(moved)
    assert again["accuracy"] == jumok.Run(moved).results["accuracy"]
    assert again["n"] == len(TEST)
    assert jumok.evaluate(moved, split="dev")["n"] == len(DEV)
    file = moved / "data/test.jsonl"
    file.write_text(file.read_text().replace("positive", "negative"))
    with raises(InputError, "data.wrong_sha256"):
        jumok.evaluate(moved)


def test_data_in_memory_are_not_written_through_a_link(tmp_path: Path) -> None:
    recipe = load_recipe(str(write_reviews(tmp_path)))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "data").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="must be a folder of the run, got a link"):
        jumok.train(recipe, data=TRAIN, dev=DEV, test=TEST, out=tmp_path / "run", **SHORT)
    assert not any((tmp_path / "elsewhere").iterdir())


def test_a_run_has_results_history_and_predictions(from_files: jumok.Run) -> None:
    run = jumok.Run(from_files.folder)
    assert run.results == json.loads((run.folder / "results.json").read_text())
    with (run.folder / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == run.history.columns
    assert [{k: "" if v is None else str(v) for k, v in row.items()} for row in run.history] == rows
    assert [row["step"] for row in run.history] == [3, 6]
    frame = pd.DataFrame(run.history)
    assert list(frame.columns) == list(run.history.columns)
    assert len(frame) == 2
    assert "<table><tr><th>epoch</th>" in run.history._repr_html_()
    assert len(run.history[:1]) == 1
    assert repr(run).endswith("finished)")
    one, [same] = run.predict("연기가 최고예요"), run.predict(["연기가 최고예요"])
    assert one == same == run.load()("연기가 최고예요")


def test_a_row_dictionary_may_have_the_names_of_the_recipe(tmp_path: Path) -> None:
    recipe = write_reviews(tmp_path)
    data = [{"id": 7, "document": text, "rating": label} for text, label in TRAIN]
    run = jumok.train(
        recipe,
        data=data, dev=data[:10], test=data[:5], out=tmp_path / "run",
        data__text="document", data__label="rating", **SHORT,
    )  # fmt: skip
    assert run.evaluate(data[:7])["n"] == 7
    assert run.evaluate(TEST)["n"] == len(TEST)
    with pytest.raises(InputError, match=r":\n  data:2: empty text \(got ''\)$"):
        run.evaluate([TEST[0], ("", TEST[0][1])])


def test_own_data_replace_a_corpus_and_its_splits(tmp_path: Path) -> None:
    small = {"vocabulary__size": 66, "model__d_model": 16, "model__n_heads": 2, "model__d_ff": 32}
    run = jumok.train("nsmc", data=TRAIN, out=tmp_path / "run", **small, **SHORT)
    assert run.recipe.data.corpus == ""
    assert run.results["split"] == "dev"
    assert run.results["n"] == len(TRAIN) // 10


def test_labels_of_a_datasets_feature_are_used(tmp_path: Path) -> None:
    import datasets

    names = ["positive", "negative"]
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=names)}
    )
    rows = {"text": [row[0] for row in TRAIN], "label": [names.index(row[1]) for row in TRAIN]}
    data = datasets.Dataset.from_dict(rows, features=features)
    run = jumok.train(
        write_reviews(tmp_path), data=data, dev=data, test=data, out=tmp_path / "run", **SHORT
    )
    assert run.load().labels == ("positive", "negative")


BAD = [
    ([], "run.no_data_rows"),
    ([("a", "b", "c")], "run.bad_row"),
    ([{"txet": "a", "label": "b"}], "run.no_such_column"),
    (pd.DataFrame({"text": ["a"]}), "run.no_such_column"),
    (7, "run.unusable_data"),
    ({"train": TRAIN, "test": TEST}, "run.data_of_several_splits"),
    ([("좋다", object())], "run.cell_of_other_type"),
    ([("좋다", None)], "1 row cannot be used.*\n.*train.jsonl:1: label is not a text"),
]


@pytest.mark.parametrize(("data", "message"), BAD)
def test_unusable_data_leave_no_folder(data: object, message: str, tmp_path: Path) -> None:
    recipe = write_reviews(tmp_path)
    with raises(InputError, message):
        jumok.train(recipe, data=data, out=tmp_path / "run", **SHORT)
    assert not (tmp_path / "run").exists()


def test_a_second_training_does_not_touch_the_data_of_the_first(
    from_files: jumok.Run, tmp_path: Path
) -> None:
    recipe = from_files.folder.parent / "recipe.toml"
    jumok.train(recipe, data=TRAIN, out=tmp_path / "run", **SHORT)
    before = (tmp_path / "run/data/train.jsonl").read_bytes()
    with raises(InputError, "run.folder_has_a_run_to_resume"):
        jumok.train(recipe, data=TEST, out=tmp_path / "run", **SHORT)
    assert (tmp_path / "run/data/train.jsonl").read_bytes() == before


def test_wrong_calls_are_explained(from_files: jumok.Run, tmp_path: Path) -> None:
    with raises(InputError, "config.unknown_key"):
        jumok.train("nsmc", training__stepz=3)
    with raises(InputError, "run.dev_or_test_without_data"):
        jumok.train("nsmc", test=TEST, out=tmp_path / "run")
    with raises(InputError, "run.data_and_split"):
        jumok.evaluate(from_files, TEST, split="dev")
    with raises(InputError, "run.not_a_run"):
        jumok.Run(tmp_path)
    with raises(InputError, "data.sha256_of_unknown_split"):
        jumok.train("nsmc", data__sha256__tset="00")
