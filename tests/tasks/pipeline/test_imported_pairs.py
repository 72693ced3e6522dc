"""Imported classifiers of pairs: they read and score both texts as transformers does."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pytest
import torch

import jumok
from jumok.errors import InputError
from tests import hf_folders
from tests.errors import raises
from tests.tiny_runs import write_tsv

transformers = pytest.importorskip("transformers")

MAX_LENGTH = 38  # of the tokenizers or the positions of these folders
LABELS = ("entailment", "neutral", "contradiction")
PAIRS = [
    ("이 영화 정말 재미있어요", "별로예요"),
    ("철수가 서울에 가요", "철수가 부산에 가요"),
    ("별로", ""),
    ("", "음악이 좋았어요"),
    ("연기가 최고예요 ㅋㅋ " * 9, "결말이 지루해요 " * 5),  # longer than the model reads
    ("화면이 좋았어요", "화면이 좋았어요"),
]
MODELS: dict[str, Callable[[Path], Any]] = {
    "two segments": lambda folder: hf_folders.bert(folder, "ForSequenceClassification", LABELS),
    "one segment": lambda folder: hf_folders.klue_roberta(
        folder, "ForSequenceClassification", LABELS
    ),
    "bytes": lambda folder: hf_folders.roberta(folder, "ForSequenceClassification", LABELS),
    "reranker": lambda folder: hf_folders.klue_roberta(
        folder, "ForSequenceClassification", ["score"]
    ),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    root = tmp_path_factory.mktemp("pairs")

    def folder(name: str) -> Path:
        if not (root / name).exists():
            MODELS[name](root / name)
        return root / name

    return folder


@torch.no_grad()
def their_logits(folder: Path) -> torch.Tensor:
    """The logits of each pair, (n, L)."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    settings = {"truncation": True, "max_length": MAX_LENGTH, "return_tensors": "pt"}
    rows = []
    for first, second in PAIRS:  # a batch of one: transformers drops an empty second text alone
        inputs = tokenizer([first], [second], **settings)
        if model.config.type_vocab_size == 1:
            inputs.pop("token_type_ids", None)
        rows.append(model(**inputs).logits[0])
    return torch.stack(rows)


@pytest.mark.parametrize("name", ["two segments", "one segment", "bytes"])
def test_tuples_and_lines_are_the_pairs_of_transformers(
    folders: Callable[[str], Path], name: str
) -> None:
    model = jumok.load(folders(name), device="cpu")
    found = model(PAIRS)
    probabilities = [[each.probabilities[label] for label in LABELS] for each in found]
    expected = their_logits(folders(name)).softmax(-1)
    torch.testing.assert_close(torch.tensor(probabilities), expected, atol=1e-5, rtol=0)
    assert found == model(["\t".join(pair) for pair in PAIRS])
    assert model([list(pair) for pair in PAIRS]) == found  # type: ignore[misc]  # as JSON has them
    assert [each.code for each in found[4].warnings] == ["truncated"]


def test_a_reranker_scores_pairs(folders: Callable[[str], Path]) -> None:
    model = jumok.load(folders("reranker"), device="cpu")
    expected = their_logits(folders("reranker"))[:, 0]
    found = torch.tensor([answer.score for answer in model(PAIRS)])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    rows = [
        (*pair, float(score))
        for pair, score in zip(PAIRS, expected, strict=True)
        if all(pair)  # an empty text is a fault of its row
    ]
    assert jumok.evaluate(model, rows)["mse"] < 1e-9
    singles = [(first, score) for first, _, score in rows]
    assert jumok.evaluate(model, singles)["mse"] > 1e-6


@pytest.mark.parametrize("name", ["two segments", "one segment", "bytes"])
def test_both_texts_are_evaluated_from_files_and_memory(
    folders: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    """Each row has the label that transformers gives to the pair."""
    folder = folders(name)
    given = [pair for pair in PAIRS if all(pair)]
    labels = [
        LABELS[int(logits.argmax())]
        for pair, logits in zip(PAIRS, their_logits(folder), strict=True)
        if all(pair)
    ]
    rows = [(*pair, label) for pair, label in zip(given, labels, strict=True)]
    dicts = [dict(zip(("text", "pair", "label"), row, strict=True)) for row in rows]
    tsv = write_tsv(tmp_path / "rows.tsv", ("text", "pair", "label"), rows)
    frame = pandas.DataFrame(dicts)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_json(tmp_path / "rows.json", orient="records")
    lines = tmp_path / "rows.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in dicts))
    model = jumok.load(folder, device="cpu")
    files = (tsv, tmp_path / "rows.csv", tmp_path / "rows.json", lines)
    for data in (*files, rows, dicts, frame, iter(rows)):
        scores = jumok.evaluate(model, data)
        assert (scores["n"], scores["accuracy"]) == (len(rows), 1.0), data
    texts = jumok.evaluate(model, [(first, label) for first, _, label in rows])
    assert texts["calibration_error"] != pytest.approx(scores["calibration_error"], abs=1e-6)


def test_rows_of_both_kinds_are_named(folders: Callable[[str], Path], tmp_path: Path) -> None:
    """A missing second text is a fault of its row, not a row of one text."""
    model = jumok.load(folders("bytes"), device="cpu")
    rows = [{"text": "가", "pair": "나", "label": "neutral"}, {"text": "다", "label": "neutral"}]
    with raises(InputError, "row 2 of the data must have the column 'pair'"):
        jumok.evaluate(model, rows)
    lines = tmp_path / "rows.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with raises(InputError, f"{lines}:2: no key 'pair'"):
        jumok.evaluate(model, lines)


def test_pairs_that_no_model_reads_are_refused(folders: Callable[[str], Path]) -> None:
    model = jumok.load(folders("bytes"), device="cpu")
    with raises(InputError, "pipeline.tab_in_pair"):
        model([("가\t나", "다")])
    with raises(InputError, "pipeline.text_not_str"):
        model([("가", "나", "다")])  # type: ignore[list-item]
    with raises(InputError, "pipeline.reads_one_text"):
        jumok.load("note", device="cpu")([("가", "나")])
