"""Folders for sentence-transformers: the vectors of `Pipeline.encode`, also after an import."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jumok
from jumok.errors import InputError
from jumok.export import export
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.train import train
from tests import hf_folders
from tests.pretrained.test_sentence_encoding import TEXTS, write_modules
from tests.tiny_runs import reviews

FEW = ["training.steps=8", "training.evaluate_every=8"]
BERT = ["model.embedding_norm=true", "model.activation=gelu"]
MODERN = [
    *("model.norm_first=true", "model.first_norm=false", "model.embedding_norm=true"),
    *("model.positions=rotary", "model.layer_pattern=GLL", "model.sliding_window=4"),
    *("model.norm=layer_without_bias", "model.bias=false", "model.gated=true"),
    *("model.n_layers=3", "model.activation=gelu", "model.rope={base=160000}"),
]
DEBERTA = [*BERT, "model.positions=none", "model.attention=disentangled"]
MEGATRON = ["model.norm_first=true", "model.activation=gelu", "model.positions=learned"]


def package() -> Any:
    return pytest.importorskip("sentence_transformers", exc_type=ImportError)


def vectors(folder: Path, texts: list[str], **options: Any) -> Any:
    model = package().SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    return model.encode(texts, **options)


@pytest.mark.parametrize(
    "model",
    [BERT, MEGATRON, MODERN, DEBERTA],
    ids=["post-norm", "pre-norm", "windows", "disentangled"],
)
def test_a_classifier_that_averages_is_exported_without_its_head(
    review_recipe: Path, tmp_path: Path, model: list[str]
) -> None:
    """No classifier of transformers averages over the tokens, but its vectors do not need one."""
    package()
    run = tmp_path / "run"
    train(load_recipe(str(review_recipe), [*FEW, *model]), run)
    with pytest.raises(InputError, match="use --to sentence-transformers or onnx"):
        export(run, "hf", tmp_path / "hf")
    done = export(run, "sentence-transformers", tmp_path / "out")
    assert done.report.compared.difference <= 1e-5
    assert "vectors of all 30 rows of dev" in next(done.report.lines())
    texts = [text for text, _ in reviews(40, 7)] + ["ㅋㅋ", "길고 " * 60]
    expected = jumok.load(run, device="cpu").encode(texts)
    np.testing.assert_allclose(vectors(tmp_path / "out", texts), expected, atol=1e-5)
    again = jumok.load(tmp_path / "out", device="cpu")
    np.testing.assert_allclose(again.encode(texts), expected, atol=1e-5)
    assert "SentenceTransformer" in (tmp_path / "out/README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("make", [hf_folders.bert, hf_folders.modernbert, hf_folders.deberta])
def test_a_folder_is_written_back_with_its_modules(
    tmp_path: Path, make: Callable[..., Any]
) -> None:
    package()
    folder, out = tmp_path / "folder", tmp_path / "out"
    folder.mkdir()
    make(folder, head="Model")
    prompts = {"query": "질문 ", "passage": "글 "}
    write_modules(folder, {"pooling_mode": "max"}, "Dense", "Normalize", prompts=prompts)
    export(folder, "sentence-transformers", out)
    assert (out / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    for name in ("", "query"):
        found = vectors(out, TEXTS, prompt_name=name or None)
        expected = vectors(folder, TEXTS, prompt_name=name or None)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        ours = jumok.load(out, device="cpu").encode(TEXTS, prompt_name=name)
        np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_a_model_without_an_encoder_is_refused(reading_recipe: Path, tmp_path: Path) -> None:
    train(load_recipe(str(reading_recipe), FEW), tmp_path / "run")
    with pytest.raises(
        InputError, match="vectors of texts need an encoder, got the class EncoderDecoder"
    ):
        export(tmp_path / "run", "sentence-transformers", tmp_path / "out")
    assert not (tmp_path / "out").exists()
