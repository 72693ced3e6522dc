"""Folders for sentence-transformers: the same vectors, and scores of pairs, after an import too."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import jumok
from jumok.errors import InputError
from jumok.export import export
from jumok.pretrained.sentence_encoding import write_cross_encoder
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.import_checkpoint import import_checkpoint
from jumok.tasks.runs.train import train
from tests import hf_folders
from tests.combinations import slow
from tests.errors import raises
from tests.pretrained.test_sentence_encoding import TEXTS, write_modules
from tests.tiny_runs import reviews, write_tsv

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
    [BERT, slow(MEGATRON), MODERN, slow(DEBERTA)],
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


PAIRS = [("이 영화 정말 재미있어요", text) for text in (*TEXTS[:3], "감동이에요 " * 3)]


def their_scores(folder: Path, **options: Any) -> Any:
    model = package().CrossEncoder(str(folder), device="cpu", local_files_only=True)
    return model.predict(PAIRS, **options)


def our_scores(folder: Path) -> list[float]:
    return [output.score for output in jumok.load(folder, device="cpu")(PAIRS)]  # type: ignore[union-attr]


@pytest.fixture
def scored_pairs(tmp_path: Path) -> Path:
    """A recipe of pairs with scores from 0 to 5, whose model is BERT with a pooler."""
    rows = [
        (text, other, str(5.0 * (text < other))) for text, _ in reviews(20, 0) for other in TEXTS
    ]
    write_tsv(tmp_path / "pairs.tsv", ("text", "pair", "score"), rows)
    path = tmp_path / "pairs.toml"
    path.write_text(
        f"""task = "regression"
[data]
train = "{tmp_path}/pairs.tsv"
pair = "pair"
[regression]
highest = 5
[vocabulary]
size = 66
[model]
d_model = 16
n_heads = 2
d_ff = 32
n_layers = 1
n_segments = 2
positions = "learned"
pooling = "first"
pooler = "tanh"
activation = "gelu"
embedding_norm = true
max_length = 64
[training]
steps = 8
""",
        encoding="utf-8",
    )
    return path


def test_a_run_of_pairs_becomes_a_cross_encoder_and_back(
    scored_pairs: Path, tmp_path: Path
) -> None:
    """Its scores, on the scale of its data, from texts: the same tokens and token types."""
    package()
    train(load_recipe(str(scored_pairs)), tmp_path / "run")
    done = export(tmp_path / "run", "cross-encoder", tmp_path / "out")
    assert done.report.compared.difference <= 1e-5
    expected = our_scores(tmp_path / "run")
    assert len({round(score, 6) for score in expected}) > 1
    np.testing.assert_allclose(their_scores(tmp_path / "out"), expected, atol=1e-5)
    np.testing.assert_allclose(our_scores(tmp_path / "out"), expected, atol=1e-5)
    assert "CrossEncoder" in (tmp_path / "out/README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("activation", ["Sigmoid", slow("Identity")])
def test_a_cross_encoder_is_opened_imported_and_written_back(
    tmp_path: Path, activation: str
) -> None:
    """The folder that sentence-transformers 6 saves; scores are those before its activation."""
    hf_folders.bert(tmp_path / "hf", "ForSequenceClassification", ["score"])
    function = getattr(torch.nn, activation)()
    model = package().CrossEncoder(
        str(tmp_path / "hf"), device="cpu", local_files_only=True, activation_fn=function
    )
    model.save_pretrained(str(tmp_path / "folder"))
    expected = model.predict(PAIRS, activation_fn=torch.nn.Identity())
    import_checkpoint(tmp_path / "folder", tmp_path / "run")
    for folder in (tmp_path / "folder", tmp_path / "run"):
        np.testing.assert_allclose(our_scores(folder), expected, atol=1e-5)
        out = tmp_path / f"out-{folder.name}"
        export(folder, "cross-encoder", out)
        np.testing.assert_allclose(their_scores(out), model.predict(PAIRS), atol=1e-5)
        np.testing.assert_allclose(our_scores(out), expected, atol=1e-5)


def test_cross_encoders_that_are_not_read_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    hf_folders.klue_roberta(folder, "ForSequenceClassification", ["score"])
    write_cross_encoder(folder, "torch.nn.modules.activation.Sigmoid")
    assert len(our_scores(folder)) == len(PAIRS)
    for name, key, value in (
        ("sentence_bert_config.json", "transformer_task", "text-generation"),
        ("config_sentence_transformers.json", "default_prompt_name", "query"),
    ):
        path = folder / name
        before = path.read_text(encoding="utf-8")
        path.write_text(json.dumps(json.loads(before) | {key: value}), encoding="utf-8")
        with raises(InputError, "pretrained.key_not_supported"):
            jumok.load(folder, device="cpu")
        path.write_text(before, encoding="utf-8")
    (folder / "config_sentence_transformers.json").unlink()
    with raises(InputError, "pretrained.unsupported_modules"):
        jumok.load(folder, device="cpu")


def test_a_model_of_single_texts_is_no_cross_encoder(review_run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a cross-encoder needs a model of pairs of texts, got"):
        export(review_run, "cross-encoder", tmp_path / "out")
