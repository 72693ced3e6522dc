"""Weights that are not finite are not opened, and an answer that is not finite is an error."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import jumok
from jumok.errors import InputError, NonFiniteError
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.evaluate import evaluate
from jumok.tasks.runs.import_checkpoint import import_checkpoint
from jumok.tasks.runs.initialize_from import initialize_from
from jumok.tasks.runs.run import Run
from jumok.tasks.runs.train import train
from tests import hf_folders
from tests.cli.commands import call
from tests.errors import raises
from tests.tasks.tiny_jobs import tag_rows

HUGE = 3e38  # finite, but no sum of two of them is


def change(folder: Path, name: str, edit: Callable[[Tensor], object]) -> Path:
    tensors = load_file(folder / "model.safetensors")
    edit(tensors[name])
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return folder


def as_pickle(folder: Path) -> Path:
    path = folder / "model.safetensors"
    torch.save(load_file(path), folder / "pytorch_model.bin")
    path.unlink()
    return folder


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_tensor_that_is_not_finite_is_named(
    tmp_path: Path, value: float, dtype: torch.dtype
) -> None:
    name = "bert.encoder.layer.1.output.dense.weight"
    hf_folders.bert(tmp_path, "ForSequenceClassification", ["neg", "pos"], dtype=dtype)
    change(tmp_path, name, lambda tensor: tensor[3, 2].fill_(value))
    message = rf"must have finite weights, got {value} in {name}"
    with pytest.raises(InputError, match=message):
        jumok.load(tmp_path)
    with pytest.raises(InputError, match=message):
        import_checkpoint(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_pickle_and_numbers_beyond_float32(tmp_path: Path) -> None:
    hf_folders.bert(tmp_path, "ForSequenceClassification", ["neg", "pos"], dtype=torch.float64)
    change(tmp_path, "classifier.bias", lambda tensor: tensor[1].fill_(1e300))
    with raises(InputError, "model.weights_not_finite"):
        jumok.load(as_pickle(tmp_path))


def test_a_tensor_that_the_model_does_not_use_may_be_infinite(tmp_path: Path) -> None:
    """Old checkpoints store masks of -inf, which the model does not read."""
    hf_folders.gpt2(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["transformer.h.0.attn.masked_bias"] = torch.tensor(-math.inf)
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    try:
        jumok.load(tmp_path)
    except InputError as error:
        assert "finite" not in str(error)  # noqa: PT017


@pytest.fixture(scope="module")
def trained(review_recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nonfinite") / "run"
    train(load_recipe(str(review_recipe), ["training.steps=1"]), folder)
    return folder


def test_a_run(trained: Path, review_recipe: Path) -> None:
    run = Run.open(trained)
    pipeline = jumok.load(trained)
    name = "encoder.embedding.tokens.weight"
    with torch.no_grad():
        pipeline.model.get_parameter(name)[0, 0] = math.nan
    tokenizers = run.tokenizers()
    before = {path: path.read_bytes() for path in (run.weights_path, run.config_path)}
    recipe = pipeline.recipe
    run.save_model(pipeline.model, recipe.task, recipe.model, pipeline.labels, tokenizers.checksums)
    with pytest.raises(InputError, match=f"finite weights, got nan in {name}"):
        jumok.load(trained)
    recipe = load_recipe(str(review_recipe))
    recipe = replace(recipe, model=replace(pipeline.recipe.model, init=str(trained)))
    with pytest.raises(InputError, match=f"finite weights, got nan in {name}"):
        initialize_from(trained, recipe, pipeline.model, pipeline.labels)
    for path, data in before.items():
        path.write_bytes(data)


TAGS = tuple(sorted({tag for _, tags in tag_rows(60, 0) for tag in tags.split()}))
MODELS: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    "classification": (
        lambda f: hf_folders.bert(f, "ForSequenceClassification", ["neg", "pos"]),
        "classifier.weight",
        "좋아요",
    ),
    "regression": (
        lambda f: hf_folders.bert(f, "ForSequenceClassification", ["score"]),
        "classifier.weight",
        "좋아요",
    ),
    "tagging": (
        lambda f: hf_folders.bert(f, "ForTokenClassification", TAGS),
        "classifier.weight",
        "서울에 간다",
    ),
    "masked_lm": (hf_folders.bert, "cls.predictions.bias", "이 영화 [MASK]"),
    "causal_lm": (hf_folders.gpt2, "transformer.ln_f.weight", "이 영화"),
    "seq2seq": (hf_folders.bart, "final_logits_bias", "삼 일 오"),
}


@pytest.mark.parametrize("task", MODELS)
def test_an_answer_that_is_not_finite_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], task: str
) -> None:
    make, name, text = MODELS[task]
    make(tmp_path)
    call(capsys, "predict", tmp_path, text)
    if task == "seq2seq":
        name = "model.decoder.layers.0.final_layer_norm.weight"
    for each in (name, name.replace("bias", "transform.LayerNorm.weight")):
        tensors = load_file(tmp_path / "model.safetensors")
        if each in tensors:
            change(tmp_path, each, lambda tensor: tensor.fill_(HUGE))
    done = call(capsys, "predict", tmp_path, text)
    assert (done.code, done.out) == (4, ""), done.err
    assert "of the model must be finite, got nan or infinity; its weights" in done.err
    with raises(NonFiniteError, "decoding.not_finite"):
        jumok.load(tmp_path)(text)


@pytest.mark.parametrize("options", [(), ("beam=2",), ("sample=true",)])
def test_every_search_refuses(tmp_path: Path, options: tuple[str, ...]) -> None:
    hf_folders.gpt2(tmp_path)
    draft = jumok.load(tmp_path)
    change(tmp_path, "transformer.ln_f.weight", lambda tensor: tensor.fill_(HUGE))
    pipeline = jumok.load(tmp_path).with_decoding(options)
    with raises(NonFiniteError, "decoding.not_finite"):
        pipeline("이 영화")
    if options != ("beam=2",):
        with raises(NonFiniteError, "decoding.not_finite"):
            pipeline.with_draft(draft)("이 영화")


def test_a_score_of_answers_that_are_not_finite_is_an_error(trained: Path) -> None:
    pipeline = jumok.load(trained)
    with torch.no_grad():
        for name, parameter in pipeline.model.named_parameters():
            if name.startswith("output"):
                parameter.fill_(HUGE)
    from jumok.tasks.runs.evaluate import evaluation_tables

    (table,) = evaluation_tables(pipeline.recipe, "dev", pipeline.labels).values()
    with raises(NonFiniteError, "decoding.not_finite"):
        evaluate(pipeline, table, "dev")
