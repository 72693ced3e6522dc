"""`--to gguf`: trained and imported language models, read back with equal logits."""

from pathlib import Path
from typing import Any

import pytest
import torch

import jumok
from jumok.errors import InputError
from jumok.export import export
from jumok.export.report import QuantizationCost
from jumok.formats.gguf_reader import read_gguf
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.import_checkpoint import import_checkpoint
from jumok.tasks.runs.train import train
from tests.combinations import slow
from tests.errors import raises
from tests.export.small_models import names_in

GPT2 = 'activation = "gelu_tanh"\nnorm_first = true\n'
LLAMA = """activation = "silu"
norm_first = true
norm = "rms"
gated = true
bias = false
positions = "rotary"
n_kv_heads = 1
"""


def trained(folder: Path, settings: str) -> Path:
    """A language model of a few letters, after four steps."""
    lines = ["가 나 다 라", "나 다 라 가", "다 라 가 나"] * 10
    (folder / "texts.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "recipe.toml").write_text(
        f"""
        name = "letters"
        task = "language_modeling"
        data = {{ train = "{folder}/texts.txt", test = "{folder}/texts.txt", dev_rows = 6 }}
        vocabulary = {{ size = 20 }}
        [model]
        kind = "decoder"
        d_model = 32
        n_heads = 2
        d_ff = 64
        n_layers = 1
        max_length = 16
        {settings}
        [training]
        steps = 4
        batch_tokens = 64
        evaluate_every = 4
        learning_rate = 0.01
        precision = "float32"
        """,
        encoding="utf-8",
    )
    train(load_recipe(str(folder / "recipe.toml")), folder / "run")
    return folder / "run"


@pytest.mark.parametrize(
    ("settings", "arch"),
    [(GPT2, "gpt2"), slow(LLAMA, "llama"), (LLAMA + "qk_norm = true", "qwen3")],
)
def test_a_trained_model(settings: str, arch: str, tmp_path: Path) -> None:
    run = trained(tmp_path, settings)
    done = export(run, "gguf", tmp_path / "out", "q8_0")
    assert names_in(tmp_path / "out") == ["README.md", "model.gguf", "vocabulary.model"]
    assert done.weight_type == "q8_0"
    assert done.report.compared.difference <= 1e-5
    cost = done.report.int8
    assert isinstance(cost, QuantizationCost)
    assert cost.after["perplexity"] == pytest.approx(cost.before["perplexity"], rel=0.02)
    assert cost.after != cost.before
    assert next(cost.lines()).startswith("q8_0 ")
    file = read_gguf(tmp_path / "out" / "model.gguf")
    assert file.metadata["general.architecture"] == arch
    assert file.tensors["blk.0.ffn_up.weight"].type.name == "Q8_0"
    import_checkpoint(tmp_path / "out" / "model.gguf", tmp_path / "again")
    ours, found = jumok.load(run), jumok.load(tmp_path / "again")
    text = "가 나 다"
    assert ours.vocabulary.encode(text) == found.vocabulary.encode(text)
    ids = torch.tensor([[5, 6, 7]])
    difference = (ours.model(ids) - found.model(ids)).abs().max()
    assert 0 < difference < 0.02 * ours.model(ids).abs().max()


def test_refusals(tmp_path: Path, review_run: Path) -> None:
    run = trained(tmp_path, 'activation = "relu"\nnorm_first = true')
    arguments: list[tuple[Path, Any, str]] = [
        (run, None, "llama.cpp computes gpt2 with gelu_tanh, got relu; use --to"),
        (review_run, None, "GGUF is written for language models, got TextClassifier; use --to"),
        (run, "int8", "--to gguf writes one of float32, f16, bf16, q8_0, q4_0, got int8"),
    ]
    for folder, quantize, sentence in arguments:
        with pytest.raises(InputError, match=sentence):
            export(folder, "gguf", tmp_path / "out", quantize)
    with raises(InputError, "export.unknown_weight_type"):
        export(review_run, "onnx", tmp_path / "out", "q8_0")
    assert not (tmp_path / "out").exists()
