"""Entities in the files of other tools: CoNLL, Naver NER, doccano, Label Studio, Hugging Face."""

import json
from pathlib import Path

import datasets
import pytest

from jumok.data.config import DataConfig
from jumok.data.load import load_splits
from jumok.data.splits import TAGGING
from jumok.data.table import Table
from jumok.errors import DataError
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.runs.own_data import kept_data
from jumok.training.config import TrainingConfig
from tests.errors import raises

TEXT = "서울 역에서 철수"
TAGS = "B-LC I-LC I-LC I-LC O O O B-PS I-PS"  # 서울 역, with its space, and 철수

# 서울 역에서 철수, whole words: 서울 역에서 is one entity of two words
CONLL = """\
-DOCSTART- -X- -X- O

# text = 서울 역에서 철수
서울 NNP B-LC
역에서 NNG I-LC
철수 NNP B-PS

이\tNP\tO
"""
NAVER = "1\t서울\tLOC_B\n2\t역에서\tLOC_I\n3\t철수\tPER_B\n\n1\t이\t-\n"
STUDIO_CONLL = "-DOCSTART- -X- O\n서울 -X- _ B-LC\n역에서 -X- _ I-LC\n철수 -X- _ B-PS\n\n"
WORDS = "B-LC I-LC I-LC I-LC I-LC I-LC O B-PS I-PS"  # as the words of CONLL are tagged

DOCCANO = {"id": 7, "text": TEXT, "label": [[7, 9, "PS"], [0, 4, "LC"]]}
DOCCANO_RELATIONS = {
    "id": 7,
    "text": TEXT,
    "relations": [],
    "entities": [
        {"id": 1, "label": "LC", "start_offset": 0, "end_offset": 4},
        {"id": 2, "label": "PS", "start_offset": 7, "end_offset": 9},
    ],
}
PRODIGY = {
    "text": TEXT,
    "spans": [{"start": 0, "end": 4, "label": "LC"}, {"start": 7, "end": 9, "label": "PS"}],
}
HUGGING_FACE = {"tokens": TEXT.split(), "ner_tags": ["B-LC", "I-LC", "B-PS"]}


def region(start: int, stop: int, kind: str, text: str = TEXT) -> dict[str, object]:
    return {"start": start, "end": stop, "text": text[start:stop], "labels": [kind]}


def studio_task(text: str, *regions: dict[str, object]) -> dict[str, object]:
    """A task in the JSON export of Label Studio."""
    results = [
        {"value": value, "id": f"r{n}", "from_name": "label", "to_name": "text", "type": "labels"}
        for n, value in enumerate(regions)
    ]
    return {
        "id": 1,
        "annotations": [{"id": 1, "result": results, "was_cancelled": False, "ground_truth": True}],
        "data": {"text": text},
        "project": 1,
    }


STUDIO = studio_task(TEXT, region(0, 4, "LC"), region(7, 9, "PS"))
STUDIO_MIN = {"text": TEXT, "id": 1, "label": [region(0, 4, "LC"), region(7, 9, "PS")]}


def read(path: Path, content: str, **settings: object) -> Table:
    path.write_text(content, encoding="utf-8")
    config = DataConfig(train=str(path), dev=str(path), **settings)  # type: ignore[arg-type]
    return load_splits(config, TAGGING, only=["train"]).train


@pytest.mark.parametrize(
    ("name", "content", "tags"),
    [
        ("a.conll", CONLL, WORDS),
        ("a.txt", CONLL, WORDS),
        ("a.tsv", NAVER, WORDS.replace("LC", "LOC").replace("PS", "PER")),
        ("a.conll", STUDIO_CONLL, WORDS),
        ("a.iob", "서울 I-LC\n역에서 I-LC\n철수 I-PS\n", WORDS),  # IOB1
        ("a.txt", "서울 B-LC\n역에서 E-LC\n철수 S-PS\n", WORDS),  # BIOES
        ("a.tsv", f"text\ttags\n{TEXT}\tLC-B LC-I PS-B\n", WORDS),  # KoBERT-NER, with a header
        ("a.tsv", f"text\ttags\n{TEXT}\t{TAGS}\n", TAGS),
        ("a.jsonl", json.dumps(DOCCANO), TAGS),
        ("a.jsonl", json.dumps(DOCCANO_RELATIONS), TAGS),
        ("a.jsonl", json.dumps(PRODIGY), TAGS),
        ("a.json", json.dumps([STUDIO]), TAGS),
        ("a.json", json.dumps([STUDIO_MIN]), TAGS),
        ("a.jsonl", json.dumps(HUGGING_FACE), WORDS),
        ("a.jsonl", json.dumps({"text": TEXT, "tags": TAGS.split(" ")}), TAGS),
    ],
)  # fmt: skip
def test_files_of_other_tools(name: str, content: str, tags: str, tmp_path: Path) -> None:
    table = read(tmp_path / name, content)
    assert table.column("text")[0] == TEXT
    assert table.column("tags")[0] == tags
    assert list(table.column("tags"))[1:] in ([], ["O"])


def test_numbers_are_names_in_a_stated_order(tmp_path: Path) -> None:
    row = json.dumps({"tokens": TEXT.split(), "ner_tags": [1, 2, 3]})
    order = ("O", "LC-B", "LC-I", "PS-B", "PS-I")
    assert read(tmp_path / "a.jsonl", row, labels=order).column("tags")[0] == WORDS
    with pytest.raises(DataError, match=r"the tag 1, a number; name the tags in order in data\.l"):
        read(tmp_path / "a.jsonl", row)


def test_a_dataset_with_class_labels(tmp_path: Path) -> None:
    names = ["O", "B-LC", "I-LC", "B-PS", "I-PS"]
    features = datasets.Features(
        tokens=datasets.Sequence(datasets.Value("string")),
        ner_tags=datasets.Sequence(datasets.ClassLabel(names=names)),
    )
    rows = {"tokens": [TEXT.split(), ["이"]], "ner_tags": [[1, 2, 3], [0]]}
    data = datasets.Dataset.from_dict(rows, features)
    recipe = Recipe(
        name="a", task="tagging", data=DataConfig(train="x"), training=TrainingConfig(steps=1)
    )
    with kept_data(recipe, {"train": data}, tmp_path / "run") as recipe:
        splits = load_splits(recipe.data, TAGGING)
        assert splits.labels == tuple(names)
        tables = splits.train, splits.dev
        found = {t.column("text")[0]: t.column("tags")[0] for t in tables}  # one row each
        assert found == {TEXT: WORDS, "이": "O"}


def test_positions_of_javascript(tmp_path: Path) -> None:
    """An emoji is two UTF-16 units."""
    value = {"start": 3, "end": 5, "text": "서울", "labels": ["LC"]}
    table = read(tmp_path / "a.json", json.dumps([studio_task("😀 서울", value)]))
    assert table.column("tags")[0] == "O O B-LC I-LC"


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ({"text": "가나", "label": [[0, 2, "A"], [1, 2, "B"]]}, "entities that overlap, at 1"),
        ({"text": "가나", "label": [[0, 3, "A"]]}, "an entity from 0 to 3 in 2 characters"),
        ({"text": "가나", "label": [[1, 1, "A"]]}, "an entity from 1 to 1"),
        ({"text": "가나", "label": [["A", 0, 1]]}, "an entity must be"),
        ({"text": "가나", "label": [[0, 1, "a b"]]}, "type of an entity must be one word"),
        ({"tokens": ["가", ""], "ner_tags": ["O", "O"]}, "a token that is empty"),
        ({"tokens": ["가"], "ner_tags": ["O", "O"]}, "2 tags for 1 tokens"),
        ({**STUDIO, "annotations": []}, "must have one annotation, got 0"),
        (
            studio_task("가나다", {"start": 0, "end": 2, "text": "다", "labels": ["A"]}),
            "text of a region must be at its place",
        ),
        ({"text": "가나"}, "no key 'tags'"),
    ],
)
def test_wrong_entities_are_bad_rows(row: object, fault: str, tmp_path: Path) -> None:
    with raises(DataError, "file.bad_rows") as error:
        read(tmp_path / "a.jsonl", json.dumps(row))
    assert fault in str(error.value)


def test_wrong_lines_of_conll(tmp_path: Path) -> None:
    with raises(DataError, "file.bad_rows") as error:
        read(tmp_path / "a.conll", "서울 B-LC\n역에서\n\n# O\n철수 PERSON\n")
    assert "a.conll:2: not a word with a tag" in str(error.value)
    assert "a.conll:5: not a word with a tag O, B-X or I-X (got '철수 PERSON')" in str(error.value)
