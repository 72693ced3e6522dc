"""Complete exports of tiny runs."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from jumok import GeneratedText, Prediction, load
from jumok.errors import InputError, JumokError
from jumok.export import TARGETS, export, export_difference, get_target
from jumok.export.report import NotMeasured, QuantizationCost
from jumok.formats.onnx_session import exported_logits
from tests.errors import raises
from tests.export.small_models import names_in
from tests.hf_folders import gpt2, marian


@pytest.fixture(scope="module")
def classifier(
    review_run: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[str]]:
    """The review run in int8, and the progress messages."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    out, printed = tmp_path_factory.mktemp("onnx") / "out", list[str]()
    done = export(review_run, "onnx", out, "int8", printed.append)
    assert done.report.compared.difference <= 1e-5
    cost = done.report.int8
    assert isinstance(cost, QuantizationCost)
    assert cost.rows == "all 30 rows of dev"
    assert cost.before.keys() == cost.after.keys() == {"accuracy", "macro_f1", "calibration_error"}
    assert abs(cost.before["accuracy"] - cost.after["accuracy"]) <= 0.1
    return out, printed


def test_a_classifier_in_int8(classifier: tuple[Path, list[str]], review_run: Path) -> None:
    out, printed = classifier
    tokenizer = ["tokenizer.json", "tokenizer_config.json", "vocabulary.model"]
    assert names_in(out) == ["README.md", "config.json", "model.onnx", *tokenizer]
    assert printed[-1] == "measuring int8 on all 30 rows of dev"
    loaded, ids = load(review_run, device="cpu"), torch.tensor([[5, 9, 11, 14]])
    actual, reference = loaded.logits(ids), exported_logits(out)(ids)
    torch.testing.assert_close(reference, actual, atol=0.3, rtol=0.1)
    assert not torch.allclose(reference, actual, atol=1e-5)


def test_other_tools_use_the_folder(classifier: tuple[Path, list[str]], review_run: Path) -> None:
    """tokenizers, onnxruntime and the labels in config.json give the labels of jumok."""
    import onnxruntime
    from tokenizers import Tokenizer

    out, _ = classifier
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    session = onnxruntime.InferenceSession(out / "model.onnx")
    model = load(review_run, device="cpu")
    assert list(config["id2label"].values()) == list(model.labels)
    assert config["label2id"] == {name: i for i, name in enumerate(model.labels)}
    assert config["pad_token_id"] == model.vocabulary.padding_id
    texts = ["정말 재미있는 영화", "지루하고 아까운 시간", "배우의 연기가 좋다"]
    for text, expected in zip(texts, model.predict(texts), strict=True):
        ids = np.array([tokenizer.encode(text).ids])
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": 0 * ids}
        names = [each.name for each in session.get_inputs()]
        (logits,) = session.run(["logits"], {name: feed[name] for name in names})
        probabilities = torch.tensor(logits[0]).softmax(0)
        assert isinstance(expected, Prediction)
        for i, name in config["id2label"].items():  # int8
            assert abs(float(probabilities[int(i)]) - expected.probabilities[name]) < 0.1


def test_the_card_of_a_classifier(
    classifier: tuple[Path, list[str]], review_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (classifier[0] / "README.md").read_text(encoding="utf-8")
    for part in (
        "# reviews\n",
        "to onnx, weights in int8",
        "labels, in the order of the outputs: ",
        "| test | accuracy | ",
        "logits of all 30 rows of dev: at most",
        "int8         on all 30 rows of dev",
        "their licence is not known to jumok",
        'onnxruntime.InferenceSession("model.onnx")',
        "글 하나(또는 두 글)에 레이블 하나를 붙이는 모델",
    ):
        assert part in text
    monkeypatch.chdir(classifier[0])
    opened: dict[str, Any] = {}
    exec(how_to_open(classifier[0]).replace("[[...]]", "[[5, 9, 11], [6, 7, 8]]"), opened)
    assert opened["found"].shape == (2, len(load(review_run).labels))


def test_a_writer(
    reading_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("ctranslate2")
    out = tmp_path / "out"
    done = export(reading_run, "ctranslate2", out, "int8")
    assert names_in(out) == [
        "README.md",
        "config.json",
        "model.bin",
        "shared_vocabulary.json",
        "vocabulary.model",
    ]
    compared = done.report.compared
    assert compared.difference <= 1e-4
    assert [(each.search, each.n, each.others) for each in compared.searches] == [
        ("greedy", 30, ()),
        ("beam 4", 30, ()),
    ]
    assert isinstance(done.report.int8, QuantizationCost)
    assert {"exact_match", "bleu", "chrf"} <= done.report.int8.after.keys()
    monkeypatch.chdir(out)
    capsys.readouterr()
    exec(how_to_open(out).replace('"..."', '"삼 일 오"'), {})
    beam = load(reading_run).with_decoding(["beam=4", "n_best=4", "early_stopping=true"])
    ours = beam("삼 일 오")
    assert isinstance(ours, GeneratedText)
    assert ours.n_best is not None
    written = capsys.readouterr().out.removesuffix("\n")
    ranks = {each.output: each.rank for each in ours.n_best}
    # int8 may exchange hypotheses that are almost equal: which ones depends on the processor
    assert ranks[written] > ranks[ours.output] - 0.2


def test_a_language_model(language_run: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    done = export(language_run, "ctranslate2", tmp_path / "out", "int8")
    assert done.report.compared.difference <= 1e-4
    assert [each.others for each in done.report.compared.searches] == [(), ()]
    cost = done.report.int8
    assert isinstance(cost, QuantizationCost)
    # Without VNNI it saturates sums of pairs of int16: 0.27 with AVX2, below 0.1 with VNNI.
    assert cost.after["loss"] == pytest.approx(cost.before["loss"], abs=0.5)
    assert "generate_batch" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")


def test_without_its_data_int8_is_not_measured(reading_run: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    run = tmp_path / "run"
    shutil.copytree(reading_run, run)
    recipe = (run / "recipe.toml").read_text(encoding="utf-8")
    (run / "recipe.toml").write_text(recipe.replace("dev.tsv", "gone.tsv"), encoding="utf-8")
    done = export(run, "ctranslate2", tmp_path / "out", "int8")
    assert isinstance(done.report.int8, NotMeasured)
    assert "gone.tsv" in done.report.int8.reason
    assert done.report.compared.rows == "100 rows of random ids"
    assert done.report.compared.difference <= 1e-4


def test_an_imported_writer(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    folder = tmp_path / "marian"
    folder.mkdir()
    rules = {"bad_words_ids": [[5, 6], [9]], "forced_bos_token_id": 7}
    marian(folder, generation=rules)
    done = export(folder, "ctranslate2", tmp_path / "out")
    assert done.report.compared.difference <= 1e-4
    assert [each.others for each in done.report.compared.searches] == [(), ()]
    assert {"source.spm", "target.spm", "vocab.json"} <= set(names_in(tmp_path / "out"))
    text = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "imported from a MarianMTModel" in text
    assert "checkpoint's generation_config.json bans 2 sequences, forces token 7 at" in text
    compile(how_to_open(tmp_path / "out"), "README.md", "exec")
    body = tmp_path / "gpt2"
    body.mkdir()
    gpt2(body, "Model")
    with pytest.raises(InputError, match="a GPT2Model has no LM head"):
        export(body, "ctranslate2", tmp_path / "other")


def test_export_difference(reading_run: Path) -> None:
    pytest.importorskip("ctranslate2")
    assert 0 < export_difference(load(reading_run, device="cpu"), "ctranslate2") <= 1e-4


def test_unsupported_exports(reading_run: Path, review_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(
        InputError,
        match=r"ONNX export needs an encoder, got the class .*; use --to hf or ctranslate2",
    ):
        export(reading_run, "onnx", out)
    with pytest.raises(InputError, match="use --to onnx"):
        export(review_run, "ctranslate2", out)
    with pytest.raises(
        InputError,
        match="--to must be a known name, got 'tflite'; known: cross-encoder, ctranslate2, gguf",
    ):
        export(review_run, "tflite", out)
    with raises(InputError, "storage.not_empty"):
        export(review_run, "onnx", reading_run)
    assert names_in(tmp_path) == []


def test_a_different_model_is_not_saved(
    reading_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ctranslate2")
    monkeypatch.setattr("jumok.formats.ctranslate2.CTranslate2.tolerance", 0.0)
    with raises(JumokError, "export.outputs_differ"):
        export(reading_run, "ctranslate2", tmp_path / "out")
    assert names_in(tmp_path) == []


def test_every_target_names_its_libraries() -> None:
    without = [name for name in TARGETS.names() if not get_target(name).libraries]
    assert without == ["gguf", "web"]  # written by jumok itself


def how_to_open(folder: Path) -> str:
    """The Python code of a model card."""
    text = (folder / "README.md").read_text(encoding="utf-8")
    return text.split("```python\n")[1].split("```")[0]
