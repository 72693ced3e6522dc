"""The development split that is drawn from the training rows of one's own files."""

import random
import unicodedata
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from jumok.config_io import read_toml
from jumok.data.config import DataConfig
from jumok.data.load import load_splits
from jumok.data.splits import MULTI_LABEL, SEQUENCES
from jumok.data.stratified_split import stratified_draw
from jumok.tasks.recipe.recipe import load_recipe, load_run_recipe

TOPICS = ["날씨", "축구", "요리", "영화", "음악", "여행", "경제", "건강", "게임", "교육"]
ROWS = [(f"{topic} 이야기 {n}번", topic) for topic in TOPICS for n in range(30)]


def write(path: Path, rows: list[tuple[str, str]]) -> DataConfig:
    text = "".join(f"{text}\t{label}\n" for text, label in rows)
    path.write_text(f"text\tlabel\n{text}", encoding="utf-8")
    return DataConfig(train=str(path))


def test_a_file_sorted_by_label_has_all_labels_in_both_splits(tmp_path: Path) -> None:
    splits = load_splits(write(tmp_path / "sorted.tsv", ROWS))
    assert Counter(splits.train.column("label")) == dict.fromkeys(TOPICS, 27)
    assert Counter(splits.dev.column("label")) == dict.fromkeys(TOPICS, 3)
    positions = [
        ROWS.index(row) for row in zip(*map(splits.dev.column, ("text", "label")), strict=True)
    ]
    assert positions == sorted(positions)


def test_the_order_of_the_rows_does_not_change_the_draw(tmp_path: Path) -> None:
    shuffled = random.Random(0).sample(ROWS, len(ROWS))
    first, second = (
        load_splits(write(tmp_path / name, rows)).dev.column("text")
        for name, rows in (("a.tsv", ROWS), ("b.tsv", shuffled))
    )
    assert set(first) == set(second)


def test_decomposed_hangul_does_not_change_the_draw(tmp_path: Path) -> None:
    decomposed = [(unicodedata.normalize("NFD", text), label) for text, label in ROWS]
    first, second = (
        load_splits(write(tmp_path / name, rows)).dev.column("text")
        for name, rows in (("a.tsv", ROWS), ("b.tsv", decomposed))
    )
    assert [unicodedata.normalize("NFC", text) for text in second] == list(first)


def test_another_seed_draws_other_rows(tmp_path: Path) -> None:
    config = write(tmp_path / "a.tsv", ROWS)
    drawn = [
        set(load_splits(DataConfig(train=config.train, seed=seed)).dev.column("text"))
        for seed in range(3)
    ]
    assert len(set.union(*drawn)) > 60


def test_repeated_texts_are_in_one_split(tmp_path: Path) -> None:
    rows = [(f"글 {n % 40}", "가나"[n % 2]) for n in range(120)]  # each text three times
    splits = load_splits(write(tmp_path / "a.tsv", rows))
    assert not set(splits.train.column("text")) & set(splits.dev.column("text"))
    assert len(splits.dev) == 12


@pytest.mark.parametrize(
    ("sizes", "n_drawn", "expected"),
    [
        ((900, 90, 10), 100, (90, 9, 1)),
        ((98, 2), 10, (9, 1)),  # a rare label is in both parts
        ((99, 1), 10, (10, 0)),  # a single row is learned
        ((1, 1, 1), 2, (1, 1, 0)),
        ((4, 2, 2), 2, (1, 0, 1)),
        ((2, 2), 3, (2, 1)),
    ],
)
def test_the_number_of_rows_of_each_label(
    sizes: tuple[int, ...], n_drawn: int, expected: tuple[int, ...]
) -> None:
    strata = [str(i) for i, size in enumerate(sizes) for _ in range(size)]
    drawn = stratified_draw(strata, map(str, range(len(strata))), n_drawn, 0)
    found = [int(drawn[np.array(strata) == str(i)].sum()) for i in range(len(sizes))]
    assert tuple(found) == expected


def test_each_of_several_labels_is_in_both_splits(tmp_path: Path) -> None:
    rows = [(f"글 {n}", "흔함|드묾" if n < 4 else "흔함") for n in range(100)]
    splits = load_splits(write(tmp_path / "a.tsv", rows), MULTI_LABEL)
    for split in (splits.train, splits.dev):
        assert any("드묾" in cell for cell in split.column("labels"))


def test_pairs_of_sequences_are_drawn_at_random(tmp_path: Path) -> None:
    text = "".join(f"{n}\t{n}!\n" for n in range(200))
    (tmp_path / "a.tsv").write_text(f"source\ttarget\n{text}", encoding="utf-8")
    dev = load_splits(DataConfig(train=str(tmp_path / "a.tsv")), SEQUENCES).dev
    assert len(dev) == 20
    assert 60 < np.mean([int(source) for source in dev.column("source")]) < 140


def test_a_run_without_the_key_keeps_its_last_rows(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    write(tmp_path / "a.tsv", ROWS)
    path.write_text(
        load_recipe("nsmc", ["data.corpus=", f"data.train={tmp_path}/a.tsv"]).to_toml(), "utf-8"
    )
    assert load_run_recipe(path).data.dev_split == "stratified"
    path.write_text(path.read_text("utf-8").replace('dev_split = "stratified"\n', ""), "utf-8")
    assert "dev_split" not in read_toml(path)["data"]
    assert load_run_recipe(path).data.dev_split == "last"
