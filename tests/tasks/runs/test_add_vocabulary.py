"""Words added to a run: rows begin as means, the old rows stay, the run trains on."""

from pathlib import Path
from typing import Any

import pytest
import torch

import jumok
from jumok import safetensors_io
from jumok.errors import InputError
from jumok.export.export_run import export
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.add_vocabulary import Side, add_vocabulary
from jumok.tasks.runs.evaluate import evaluate, evaluation_tables
from jumok.tasks.runs.train import train
from tests.errors import raises

WORDS = ["재미있다", "칠전팔기", "코로나"]


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    return safetensors_io.read_tensors(folder / "model.safetensors")


def check_rows(old: Path, new: Path, former: Any, names: set[str]) -> None:
    before, after = tensors(old), tensors(new)
    assert before.keys() == after.keys()
    grown = {name for name in before if before[name].shape != after[name].shape}
    assert grown == names
    for name, weight in before.items():
        assert torch.equal(after[name][: len(weight)] if weight.dim() else after[name], weight)
    for name in grown:
        for row, ids in zip(after[name][len(before[name]) :], former, strict=True):
            mean = before[name][list(ids)].mean(0)
            torch.testing.assert_close(row, mean, rtol=1e-6, atol=1e-7)  # float64 sums there


def test_a_classifier_grows_and_answers_as_before(review_run: Path, tmp_path: Path) -> None:
    grown = add_vocabulary(review_run, WORDS, tmp_path / "new")
    former = grown.added["source"].former_ids
    check_rows(review_run, tmp_path / "new", former, {"encoder.embedding.tokens.weight"})
    old, new = jumok.load(review_run), jumok.load(tmp_path / "new")
    texts = ["이 영화 정말 재미있어요", "결말이 지루해요"]
    assert old(texts) == new(texts)
    assert new.vocabulary.encode("코로나") == [len(new.vocabulary) - 1]
    (table,) = evaluation_tables(new.recipe, "test", new.labels).values()
    assert evaluate(new, table, "test").scores == evaluate(old, table, "test").scores


def test_tied_tables_of_an_encoder_decoder(reading_run: Path, tmp_path: Path) -> None:
    grown = add_vocabulary(reading_run, WORDS, tmp_path / "new")
    names = {name for name in tensors(reading_run) if name.endswith("tokens.weight")}
    check_rows(reading_run, tmp_path / "new", grown.added["source"].former_ids, names)
    old, new = (jumok.load(folder)("삼 일 오").text for folder in (reading_run, tmp_path / "new"))
    assert old == new  # the scores differ: the softmax has more rows


@pytest.fixture(scope="module")
def separate_run(reading_recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two vocabularies, untied tables and an output bias."""
    overrides = ["vocabulary.joint=false", "vocabulary.size=29", "vocabulary.target_size=28"]
    overrides += ["training.steps=2", "training.evaluate_every=2", "model.output_bias=true"]
    overrides += ["model.tie_embeddings=false"]
    folder = tmp_path_factory.mktemp("separate") / "run"
    train(load_recipe(str(reading_recipe), overrides), folder)
    return folder


@pytest.mark.parametrize(
    ("side", "grown"), [(None, "source"), ("target", "target"), ("both", "both")]
)
def test_two_vocabularies_and_an_output_bias(
    side: Side | None, grown: str, separate_run: Path, tmp_path: Path
) -> None:
    words = ["칠전팔기", "코로나"]
    found = add_vocabulary(separate_run, words, tmp_path / "new", side)
    source = {"encoder.embedding.tokens.weight"}
    target = {"decoder.embedding.tokens.weight", "output.weight", "output.bias"}
    before, after = tensors(separate_run), tensors(tmp_path / "new")
    changed = {name for name in before if before[name].shape != after[name].shape}
    assert changed == {"source": source, "target": target, "both": source | target}[grown]
    for name in changed:
        words_of_side = found.added["source" if name in source else "target"]
        for i, ids in enumerate(words_of_side.former_ids):
            mean = before[name][list(ids)].mean(0)
            torch.testing.assert_close(after[name][len(before[name]) + i], mean)
    assert jumok.load(tmp_path / "new")("삼 일")


def test_the_new_run_initializes_a_training_and_is_exported(
    reading_run: Path, reading_recipe: Path, tmp_path: Path
) -> None:
    add_vocabulary(reading_run, WORDS, tmp_path / "new")
    overrides = [
        f'model.init="{tmp_path / "new"}"',
        "training.steps=2",
        "training.evaluate_every=2",
    ]
    done = train(load_recipe(str(reading_recipe), overrides), tmp_path / "on")
    rows = len(tensors(tmp_path / "on")["encoder.embedding.tokens.weight"])
    assert rows == len(jumok.load(reading_run).vocabulary) + len(WORDS)
    assert done.results["initialized_from"].split(" of ")[0] == str(len(tensors(reading_run)))
    export(tmp_path / "new", "hf", tmp_path / "hf")
    exported = jumok.load(tmp_path / "hf")
    assert exported("삼 일 오").text == jumok.load(reading_run)("삼 일 오").text


def test_runs_that_cannot_grow(review_run: Path, tmp_path: Path) -> None:
    with raises(InputError, "run.side_of_one_vocabulary"):
        add_vocabulary(review_run, WORDS, tmp_path / "new", "source")
    with raises(InputError, "run.folder_has_a_run"):
        add_vocabulary(review_run, WORDS, review_run)
    with raises(InputError, "run.not_a_run"):
        add_vocabulary(tmp_path / "none", WORDS, tmp_path / "new")
    assert not (tmp_path / "new").exists()
