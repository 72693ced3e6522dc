"""Replaced token detection: shared tables, sampled tokens, the loss written out."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import jumok
from jumok.errors import InputError
from jumok.lab.models.replaced_tokens import (
    DETECTION_WEIGHT,
    ReplacedTokenJob,
    ReplacedTokenModel,
    replaced_token_loss,
    sample_tokens,
)
from jumok.models.weights import named_weights
from jumok.tasks.masked_lm import masked_hidden
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.recipe.tables import ModelConfig
from jumok.tasks.runs.train import resume, train
from tests.errors import raises
from tests.tasks.test_masked_lm import RECIPE, TEXTS, batches, job
from tests.tasks.tiny_jobs import SMALL
from tests.tiny_runs import reviews


def electra(vocabulary_size: int) -> ReplacedTokenModel:
    torch.manual_seed(1)
    config = ModelConfig(**SMALL, vocabulary_size=vocabulary_size, n_segments=2)  # type: ignore[arg-type]
    return ReplacedTokenModel(config, generator=0.5, generator_layers=1)


def test_generator_and_encoder_share_their_tables() -> None:
    model = electra(66)
    names = named_weights(model)
    assert not any("generator.encoder.embedding.tokens" in name for name in names)
    assert "generator.output.weight" not in names
    assert model.generator.output.weight is model.encoder.embedding.tokens.weight
    assert model.generator.encoder.stack.layers[0].feed_forward is not None
    assert names["generator.encoder.embedding.projection.weight"].shape == (16, 32)


def test_tokens_are_drawn_from_softmax() -> None:
    output = torch.nn.Linear(1, 3, bias=False)
    with torch.no_grad():
        output.weight.copy_(torch.tensor([[0.7], [0.2], [0.1]]).log())
    torch.manual_seed(0)
    drawn = sample_tokens(torch.ones(20_000, 1), output)
    shares = torch.bincount(drawn, minlength=3) / len(drawn)
    torch.testing.assert_close(shares, torch.tensor([0.7, 0.2, 0.1]), atol=0.01, rtol=0)


@pytest.mark.parametrize("packed", [False, True])
def test_the_loss_written_out(packed: bool) -> None:
    made = job(TEXTS, packed=packed)
    model = electra(len(made.tokenizer)).eval()
    batch = batches(made, 0)[0]
    hidden, output = masked_hidden(model, batch)
    torch.manual_seed(5)
    found = replaced_token_loss(model, batch, hidden, output)
    torch.manual_seed(5)
    drawn = sample_tokens(hidden, output)
    ids = batch.texts.input_ids.clone()
    ids.view(-1)[batch.positions] = drawn
    replaced = torch.zeros(ids.shape)
    replaced.view(-1)[batch.positions] = (drawn != batch.labels).float()
    logits = model.detect(ids, batch.mask, positions=batch.token_positions)
    real = batch.texts.attention_mask
    real = torch.ones_like(ids, dtype=torch.bool) if real is None else real
    mean = F.binary_cross_entropy_with_logits(logits[real], replaced[real])
    torch.testing.assert_close(found, DETECTION_WEIGHT * batch.n_targets * mean)


def test_the_encoder_learns_from_detection_alone() -> None:
    made = job(TEXTS, kind=ReplacedTokenJob)
    made.model = model = electra(len(made.tokenizer))
    made.loss(batches(made, 0)[0]).backward()
    assert model.encoder.stack.layers[0].feed_forward.up.weight.grad is not None
    assert model.output.weight.grad is not None
    assert model.generator.transform[0].weight.grad is not None  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_run_resumes_loads_and_begins_a_task(tmp_path: Path, review_recipe: Path) -> None:
    for seed, (split, n) in enumerate([("train", 100), ("dev", 20), ("test", 20)]):
        text = "".join(f"{text}\n" for text, _ in reviews(n, seed))
        (tmp_path / f"{split}.txt").write_text(text, encoding="utf-8")
    path = tmp_path / "electra.toml"
    path.write_text(RECIPE.format(folder=tmp_path), encoding="utf-8")
    words = ["model.generator=0.5", "model.generator_layers=1", "masking.packed=true"]
    words += ["training.steps=12", "training.evaluate_every=6"]
    train(load_recipe(str(path), words), tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "half")
    for name in ("results.json", "model.safetensors", "config.json"):
        (tmp_path / "half" / name).unlink()
    shutil.rmtree(tmp_path / "half" / "checkpoints" / "step-12")
    resume(tmp_path / "half")
    first, second = (tmp_path / name / "model.safetensors" for name in ("whole", "half"))
    assert first.read_bytes() == second.read_bytes()
    loaded = jumok.load(tmp_path / "whole")
    assert loaded.encode(["재미있어요"]).shape == (1, 32)
    assert "[MASK]" not in loaded("이 [MASK] 정말 재미있어요").output  # type: ignore[union-attr]
    task = load_recipe(str(review_recipe), [f'model.init="{tmp_path}/whole"', "training.steps=2"])
    result = train(task, tmp_path / "task")
    own = jumok.load(tmp_path / "task")
    assert own.recipe.model.generator == 0.0
    assert "generator" not in result.results["initialized_from"].split("skipped")[0]


def test_wrong_generators() -> None:
    with raises(InputError, "recipe.generator_fraction"):
        ModelConfig(**SMALL | {"n_heads": 4}, generator=0.3)  # type: ignore[arg-type]
    with raises(InputError, "recipe.fixed_value"):
        load_recipe("nsmc", ["model.generator=0.25"])
    assert replace(ModelConfig(), generator=0.25).generator_layers == 4
