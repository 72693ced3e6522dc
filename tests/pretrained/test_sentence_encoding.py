"""Folders of sentence-transformers: their own vectors, and what is refused."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import jumok
from jumok.checks import CheckTarget, InvarianceCheck, draw_samples
from jumok.checks.variants import vectors, vectors_alone
from jumok.errors import InputError, ModelFileError, StorageError
from jumok.pretrained.sentence_encoding import SentenceEncoding, read_sentence_encoding
from jumok.tasks.pipeline.vector_index import VectorIndex, encode_query
from jumok.tasks.runs.import_checkpoint import import_checkpoint
from tests import hf_folders
from tests.errors import raises

TEXTS = [
    "이 영화 재미있어요",
    "결말이 별로예요 ㅠㅠ",
    "최고",
    "배우들이 좋았어요 추천합니다 음악이 감동이에요 이야기가 지루해요",
]
KINDS = "sentence_transformers.models."


def write_modules(
    folder: Path, pooling: dict[str, Any], *steps: str, prompts: dict[str, str] | None = None
) -> None:
    """modules.json and the folders of its modules: a Dense layer of 6 outputs, a Normalize."""
    modules = ["Transformer", "Pooling", *steps]
    paths = ["", *(f"{i}_{kind}" for i, kind in enumerate(modules) if i)]
    listed = [
        {"idx": i, "name": str(i), "path": path, "type": KINDS + kind}
        for i, (path, kind) in enumerate(zip(paths, modules, strict=True))
    ]
    for path in paths[1:]:
        (folder / path).mkdir()
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 7}')
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": 24, **pooling})
    )
    config = {"prompts": prompts or {}, "default_prompt_name": None}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(config))
    for path in paths[2:]:
        if path.endswith("Dense"):
            torch.manual_seed(3)
            save_file(
                {"linear.weight": torch.randn(6, 24), "linear.bias": torch.randn(6)},
                folder / path / "model.safetensors",
            )
            settings = {"in_features": 24, "out_features": 6, "bias": True}
            activation = {"activation_function": "torch.nn.modules.activation.Tanh"}
            (folder / path / "config.json").write_text(json.dumps(settings | activation))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    hf_folders.bert(tmp_path, head="Model")
    return tmp_path


@pytest.mark.parametrize("make", [hf_folders.modernbert, hf_folders.deberta])
def test_vectors_of_other_encoders(tmp_path: Path, make: Callable[..., Any]) -> None:
    """Within 1e-5 of sentence-transformers, from the folder and after an import."""
    package = pytest.importorskip("sentence_transformers", exc_type=ImportError)
    base = tmp_path / "base"
    base.mkdir()
    make(base, head="Model")
    write_modules(base, {"pooling_mode": "mean"}, "Dense", "Normalize", prompts={"query": "질문: "})
    reference = package.SentenceTransformer(str(base), device="cpu", local_files_only=True)
    import_checkpoint(base, tmp_path / "run")
    for folder in (base, tmp_path / "run"):
        ours = jumok.load(folder, device="cpu")
        for name in ("", "query"):
            expected = reference.encode(TEXTS, prompt_name=name or None)
            found = ours.encode(TEXTS, prompt_name=name)
            np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("pooling", "steps"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, ["Normalize"]),
        ({"pooling_mode": "mean"}, []),
        ({"pooling_mode": ["max"]}, ["Dense"]),
        ({"pooling_mode_lasttoken": True}, ["Dense", "Normalize"]),
    ],
)
def test_the_vectors_are_those_of_sentence_transformers(
    folder: Path, pooling: dict[str, Any], steps: list[str]
) -> None:
    """Within 1e-5 of the package, also with a prompt. The package and scipy are optional:

    `pip install sentence-transformers` runs this test. The next one does not need the package.
    """
    package = pytest.importorskip("sentence_transformers", exc_type=ImportError)
    write_modules(folder, pooling, *steps, prompts={"query": "질문: "})
    reference = package.SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    ours = jumok.load(folder, device="cpu")
    for name in ("", "query"):
        expected = reference.encode(TEXTS, prompt_name=name or None)
        found = ours.encode(TEXTS, prompt_name=name)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_an_imported_folder_gives_the_vectors_of_the_folder(
    folder: Path, tmp_path_factory: Any
) -> None:
    """Bit for bit, prompts and truncation included; a file that is removed is an error."""
    copied = tmp_path_factory.mktemp("imported") / "model"
    prompts = {"query": "질문: "}
    write_modules(folder, {"pooling_mode": "cls"}, "Dense", "Normalize", prompts=prompts)
    import_checkpoint(folder, copied)
    ours = jumok.load(copied, device="cpu")
    expected = jumok.load(folder, device="cpu")
    for name in ("", "query"):
        np.testing.assert_array_equal(
            ours.encode(TEXTS, prompt_name=name), expected.encode(TEXTS, prompt_name=name)
        )
    samples = draw_samples(ours)
    check = InvarianceCheck("vectors", "", vectors_alone, vectors)
    assert check.measure(CheckTarget(ours, samples)).result == "pass"
    assert vectors(CheckTarget(ours, samples))[0].shape == (6,)
    (copied / "origin/sentence_transformers/modules.json").unlink()
    with raises(InputError, "run.origin_damaged"):
        jumok.load(copied, device="cpu")


def test_pooling_dense_and_normalize_written_out(folder: Path) -> None:
    write_modules(folder, {"pooling_mode": "cls"}, "Dense", "Normalize")
    pipeline = jumok.load(folder, device="cpu")
    assert pipeline.sentence_encoding is not None
    assert pipeline.sentence_encoding.max_length == 7
    plain = pipeline.encode(TEXTS, pooling="first", normalize=False)
    torch.manual_seed(3)
    weight, bias = torch.randn(6, 24), torch.randn(6)
    tokenizer = pipeline.vocabulary
    longest = max(len(tokenizer.encode(text)) for text in TEXTS) + 2
    assert longest > 7  # so that max_seq_length truncates
    cut = SentenceEncoding("first", max_length=7)
    pipeline_cut = jumok.load(folder, device="cpu")
    pipeline_cut.sentence_encoding = cut
    np.testing.assert_allclose(pipeline_cut.encode(TEXTS, normalize=False), plain, atol=1e-6)
    expected = F.normalize(torch.tanh(torch.from_numpy(plain) @ weight.T + bias), dim=-1)
    np.testing.assert_allclose(pipeline.encode(TEXTS), expected, atol=1e-6)


def test_no_texts_and_texts_that_are_refused(folder: Path) -> None:
    plain = jumok.load(folder, device="cpu")
    write_modules(folder, {"pooling_mode": "cls"}, "Dense", "Normalize")
    assert plain.encode([]).shape == (0, 24)
    assert jumok.load(folder, device="cpu").encode([]).shape == (0, 6)
    with raises(InputError, "text.nul"):
        plain.encode(["최고", "최\0고"])


def test_search_uses_the_prompts(folder: Path, tmp_path: Path) -> None:
    prompts = {"query": "질문 ", "passage": "글 "}
    write_modules(folder, {"pooling_mode": "mean"}, "Dense", prompts=prompts)
    pipeline = jumok.load(folder, device="cpu")
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    index = VectorIndex.build(pipeline, path)
    expected = pipeline.encode(TEXTS, prompt_name="passage", normalize=True)
    np.testing.assert_allclose(index.vectors, expected, atol=1e-6)
    query = encode_query(pipeline, "최고")
    np.testing.assert_allclose(
        query, pipeline.encode("질문 최고", normalize=True, prompt_name=""), atol=1e-6
    )
    with raises(InputError, "pretrained.unknown_prompt"):
        pipeline.encode(TEXTS, prompt_name="qeury")


def test_a_folder_without_modules_has_no_encoding(folder: Path) -> None:
    assert read_sentence_encoding(folder) is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_not_a_missing_file(folder: Path) -> None:
    os.mkfifo(folder / "modules.json")
    with pytest.raises(StorageError, match=r"modules\.json: not a regular file"):
        read_sentence_encoding(folder)


def test_what_is_not_supported_is_refused(folder: Path) -> None:
    def refused(match: str) -> None:
        with pytest.raises(InputError, match=match):
            read_sentence_encoding(folder)

    write_modules(folder, {"pooling_mode": "weightedmean"}, "Dense")
    refused(r"the pooling must be one of cls, mean, max, lasttoken, got \['weightedmean'\]")
    pooling = folder / "1_Pooling" / "config.json"
    pooling.write_text('{"pooling_mode": [["mean"]]}')
    refused(r"the pooling must be one of cls, mean, max, lasttoken, got \[\['mean'\]\]")
    pooling.write_text('{"pooling_mode": "mean", "include_prompt": false}')
    refused("include_prompt must be true")
    pooling.write_text('{"pooling_mode": "mean"}')
    dense = folder / "2_Dense" / "config.json"
    dense.write_text('{"activation_function": "os.system"}')
    refused("a Dense module must have one of the activations .* got os.system")
    dense.write_text('{"activation_function": "torch.nn.Tanh", "module_input_name": ["x"]}')
    refused("a Dense module must have .* the sentence embedding as input, got torch.nn.Tanh")
    dense.write_text('{"activation_function": "torch.nn.Tanh"}')
    save_file({"linear.bias": torch.zeros(6)}, folder / "2_Dense" / "model.safetensors")
    refused(r"must hold the tensor linear\.weight")
    modules = folder / "modules.json"
    entries = json.loads(modules.read_text())
    for change, match in (
        ({"type": KINDS + "CNN"}, "the modules must be Transformer, Pooling and then .* CNN"),
        ({"path": "../elsewhere"}, "a path must be a folder's name, got '../elsewhere'"),
    ):
        modules.write_text(json.dumps([*entries[:2], entries[2] | change]))
        refused(match)
    modules.write_text(json.dumps([entries[0] | {"type": KINDS + "BERT"}, *entries[1:]]))
    refused("the modules must be Transformer, .* got BERT, Pooling, Dense")
    modules.write_text('{"modules": 3}')
    refused("must be a list of modules")
    modules.write_text("[")
    refused("not usable JSON")


def test_a_folder_of_before_version_2(folder: Path, tmp_path_factory: Any) -> None:
    """The Transformer in 0_Transformer, a Dense with a pickle, no settings of its own."""
    write_modules(folder, {"pooling_mode_mean_tokens": True}, "Dense")
    old = tmp_path_factory.mktemp("old") / "model"
    shutil.copytree(folder, old)
    (old / "0_Transformer").mkdir()
    modules = [{key: each[key] for key in ("path", "type")} for each in _modules(old)]
    modules[0]["path"] = "0_Transformer"
    for file in [each for each in old.iterdir() if each.is_file()]:
        file.rename(old / "0_Transformer" / file.name)
    (old / "modules.json").write_text(json.dumps(modules))
    (old / "config.json").write_text('{"__version__": "0.4.1"}')
    weights = old / "2_Dense" / "model.safetensors"
    torch.save(load_file(weights), old / "2_Dense" / "pytorch_model.bin")
    weights.unlink()
    expected = jumok.load(folder, device="cpu").encode(TEXTS)
    np.testing.assert_array_equal(jumok.load(old, device="cpu").encode(TEXTS), expected)
    modules[0] |= {"path": "0_BERT", "type": KINDS + "BERT"}
    (old / "modules.json").write_text(json.dumps(modules))
    with raises(ModelFileError, "pretrained.unsupported_modules"):
        jumok.load(old, device="cpu")


def _modules(folder: Path) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads((folder / "modules.json").read_text())
    return found


@pytest.mark.parametrize(
    "file",
    [
        "modules.json",
        "sentence_bert_config.json",
        "config_sentence_transformers.json",
        "1_Pooling/config.json",
        "2_Dense/config.json",
        "3_Normalize/config.json",
    ],
)
def test_an_unknown_key_is_refused(tmp_path: Path, file: str) -> None:
    write_modules(tmp_path, {"pooling_mode": "mean"}, "Dense", "Normalize")
    path = tmp_path / file
    content = json.loads(path.read_text()) if path.exists() else {}
    entry = content[1] if isinstance(content, list) else content
    entry["off"] = None
    path.write_text(json.dumps(content))
    read_sentence_encoding(tmp_path)
    entry["invented"] = 3
    path.write_text(json.dumps(content))
    with raises(ModelFileError, "pretrained.key_not_supported"):
        read_sentence_encoding(tmp_path)


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("config_sentence_transformers.json", {"truncate_dim": 8}),
        ("config_sentence_transformers.json", {"model_type": "SparseEncoder"}),
        ("sentence_bert_config.json", {"query_length": 32}),
        ("sentence_bert_config.json", {"transformer_task": "fill-mask"}),
        ("3_Normalize/config.json", {"module_input_name": "token_embeddings"}),
    ],
)
def test_settings_of_other_models_are_refused(
    tmp_path: Path, file: str, change: dict[str, object]
) -> None:
    write_modules(tmp_path, {"pooling_mode": "mean"}, "Dense", "Normalize")
    path = tmp_path / file
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(content | change))
    with raises(ModelFileError, "pretrained.key_not_supported"):
        read_sentence_encoding(tmp_path)


def test_a_folder_of_the_package_passes_in_silence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = pytest.importorskip("sentence_transformers", exc_type=ImportError)
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    base, folder = tmp_path / "base", tmp_path / "folder"
    base.mkdir()
    hf_folders.bert(base, head="Model")
    modules = [Transformer(str(base)), Pooling(24, "mean"), Dense(24, 6), Normalize()]
    package.SentenceTransformer(modules=modules, device="cpu").save(str(folder))
    capsys.readouterr()
    assert len(jumok.load(folder, device="cpu").encode(TEXTS)) == len(TEXTS)
    assert "not read" not in capsys.readouterr().err
