"""A label is the same text in every format, and an index only where the order is stated."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jumok.data.config import DataConfig
from jumok.data.files.labels import combined_label, label_cells, similar_labels
from jumok.data.files.tables import read_table
from jumok.data.load import load_splits
from jumok.data.table_files import evaluation_table
from jumok.errors import InputError
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.own_data import table_of
from tests.errors import raises

COLUMNS = ("text", "label")
RECIPE = load_recipe("nsmc", ["data.corpus="])


def held(holder: str, labels: list[Any], folder: Path) -> list[str]:
    """The labels that are read from a file or a frame."""
    rows = [{"text": f"글 {n}", "label": label} for n, label in enumerate(labels)]
    path = folder / f"rows.{holder}"
    match holder:
        case "tsv":
            cells = "".join(f"{row['text']}\t{row['label']}\n" for row in rows)
            path.write_text(f"text\tlabel\n{cells}", encoding="utf-8")
        case "csv":
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS)
                writer.writeheader()
                writer.writerows(rows)
        case "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        case "json":
            path.write_text(json.dumps(rows), encoding="utf-8")
        case "frame":
            return list(table_of(pd.DataFrame(rows), RECIPE, ()).column("label"))
        case "dicts":
            return list(table_of(rows, RECIPE, ()).column("label"))
    return list(read_table(path, COLUMNS).column("label"))


@pytest.mark.parametrize("holder", ["tsv", "csv", "jsonl", "json", "frame", "dicts"])
@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([0, 1, 1], ["0", "1", "1"]),
        ([0.0, 1.0, 1.0], ["0", "1", "1"]),
        ([1.5, 2.0, 4.5], ["1.5", "2", "4.5"]),
        ([True, False, True], ["True", "False", "True"]),
        (["긍정 ", "부정", "긍정"], ["긍정", "부정", "긍정"]),
        (["TRUE", "True", "true"], ["TRUE", "True", "True"]),
    ],
)
def test_a_label_is_the_same_whoever_holds_it(
    tmp_path: Path, holder: str, labels: list[Any], expected: list[str]
) -> None:
    assert held(holder, labels, tmp_path) == expected


def test_missing_cells_of_frames_are_named_by_row() -> None:
    frame = pd.DataFrame({"text": list("가나다라"), "label": [0, 1, 1, 0]})
    for dtype in ("Int64", "float"):
        holed = frame.astype({"label": dtype})
        holed.loc[2, "label"] = pd.NA if dtype == "Int64" else np.nan
        with pytest.raises(InputError, match=r"  data:3: label is not a text"):
            table_of(holed, RECIPE, ())
        skipping = replace(RECIPE, data=replace(RECIPE.data, on_bad_rows="skip"))
        assert list(table_of(holed, skipping, ()).column("label")) == ["0", "1", "0"]


def test_a_column_of_a_frame_that_is_there_twice_is_named() -> None:
    frame = pd.DataFrame({"text": ["가"], "label": ["1"], "other": [2]})
    twice = pd.concat([frame, frame[["text"]]], axis=1)
    with raises(InputError, "run.column_twice"):
        table_of(twice, RECIPE, ())
    unused = pd.concat([frame, frame[["other"]]], axis=1)
    assert list(table_of(unused, RECIPE, ()).column("text")) == ["가"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "text\tlabel\n\n가\t1\n  \n\n나\t0\n\n"),
        ("a.csv", "text,label\n\n가,1\n  \n\n나,0\n\n"),
        ("a.jsonl", '\n{"text": "가", "label": 1}\n \n\n{"text": "나", "label": 0}\n\n'),
    ],
)
def test_blank_lines_are_skipped_and_counted(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    table = read_table(tmp_path / name, COLUMNS)
    assert list(table.column("text")) == ["가", "나"]
    assert (table.bad_rows.blank, table.bad_rows.count) == (4, 0)


def test_blank_lines_between_paragraphs(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("첫 단락\n\n둘째 단락\n", encoding="utf-8")
    table = read_table(tmp_path / "book.txt", ("text",))
    assert (list(table.column("text")), table.bad_rows.blank) == (["첫 단락", "둘째 단락"], 1)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "text,label,,\n가,1,,\n"),
        ("a.tsv", "note\ttext\tlabel\tnote\nx\t가\t1\ty\n"),
        ("a.jsonl", '{"text": "가", "label": 1, "note": 1, "note": 2}\n'),
    ],
)
def test_columns_that_are_not_read_may_be_there_twice(
    tmp_path: Path, name: str, content: str
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert list(read_table(tmp_path / name, COLUMNS).column("text")) == ["가"]


@pytest.fixture
def words(tmp_path: Path) -> DataConfig:
    rows = "".join(f"글 {n}\t{'긍정' if n % 2 else '부정'}\n" for n in range(20))
    (tmp_path / "train.tsv").write_text(f"text\tlabel\n{rows}", encoding="utf-8")
    (tmp_path / "numbers.tsv").write_text("text\tlabel\n좋다\t1\n싫다\t0\n", encoding="utf-8")
    return DataConfig(train=str(tmp_path / "train.tsv"))


def test_numbers_are_refused_where_nothing_states_their_order(
    words: DataConfig, tmp_path: Path
) -> None:
    numbers = tmp_path / "numbers.tsv"
    for on_bad_rows in ("stop", "skip"):
        config = replace(words, on_bad_rows=on_bad_rows)
        with raises(InputError, "file.labels_are_numbers"):
            load_splits(replace(config, test=str(numbers)))
        with raises(InputError, "file.labels_are_numbers"):
            evaluation_table(numbers, config, COLUMNS, ("긍정", "부정"))


def test_numbers_are_positions_in_a_stated_order(words: DataConfig, tmp_path: Path) -> None:
    numbers = tmp_path / "numbers.tsv"
    stated = replace(words, labels=("부정", "긍정"), test=str(numbers))
    assert list(load_splits(stated).test.column("label")) == ["긍정", "부정"]
    found = evaluation_table(numbers, stated, COLUMNS, ("부정", "긍정"))
    assert list(found.column("label")) == ["긍정", "부정"]
    corpus = evaluation_table(
        numbers, DataConfig(corpus="nsmc", text="text"), COLUMNS, ("negative", "positive")
    )
    assert list(corpus.column("label")) == ["positive", "negative"]


def test_names_that_are_numbers_have_no_positions() -> None:
    assert label_cells(["0.0", "0.5"]) == {"0.0": "0.0", "0.5": "0.5"}


def test_combinations_and_spellings_of_labels() -> None:
    assert combined_label(["생활, 문화", "정치", "경제"]) == ""
    assert combined_label(["정치;경제", "경제;사회", "사회;정치"]) == "정치;경제"
    assert similar_labels(["True", "TRUE", "False", "FALSE", "참"]) == [
        ("FALSE", "False"),
        ("TRUE", "True"),
    ]
