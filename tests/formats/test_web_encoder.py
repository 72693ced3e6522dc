"""`--to web` of pairs, tags, masks and imported encoders: the answers in Node are Python's."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import nn

import jumok
from jumok.export.samples import random_samples
from jumok.formats.web import KERNEL, MODEL, Web
from jumok.formats.web_encoder import ODD_TEXTS
from jumok.formats.web_model import pack
from jumok.models import CharacterClassifier
from jumok.pretrained.sentence_encoding import (
    DenseLayer,
    Normalize,
    SentenceEncoding,
    write_sentence_encoding,
)
from jumok.safetensors_io import read_metadata
from jumok.tasks.pipeline.outputs import (
    GeneratedText,
    MultiLabelPrediction,
    Prediction,
    RegressionOutput,
    TokenClassification,
)
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.registry import get_task
from tests.export.small_models import drawn
from tests.formats.web_module import run_module
from tests.pretrained.hf_variants import randomize
from tests.pretrained_tokenizers import (
    FOLDERS,
    N_PIECES,
    TrainedTokenizers,
    sample,
    train_words,
)
from tests.tasks.tiny_jobs import CPU, LABELS, TAGS, recipe, review_vocabulary, tag_vocabulary

pytestmark = pytest.mark.usefixtures("compiled")

TOLERANCE = 1e-4
TEXTS = ("이 영화 재미있어요", "배우들이 별로예요 ㅠㅠ", "가" * 60, "화면이 👍\u200d 최고예요")
PAIRS = (("이 영화 재미있어요", "별로예요"), ("", "배우"), ("가" * 40, "나 " * 30), ("뷁", ""))
NAMES = ("철수가 서울에 가요", "영희도 정말 제주 공항에서 만나요", "", "  부산역  에", "가" * 40)
MASKED = ("이 영화 [MASK]", "[MASK][MASK] 재미", "화면이[MASK] 최고", "없음", "[MASK] " * 30)


def own(task_name: str, model: dict[str, Any], vocabulary: Any = None) -> Pipeline:
    """A small model with random weights."""
    vocabulary = vocabulary or review_vocabulary()
    plan = recipe(task_name, model).with_vocabulary(len(vocabulary))
    task = get_task(plan.task)
    labels = TAGS if task_name == "tagging" else LABELS if "classification" in task_name else ()
    network = drawn(task.build_model(plan.model, labels))
    return Pipeline(task, network, vocabulary, plan, labels, CPU)


OWN: dict[str, tuple[Callable[[], Pipeline], tuple[Any, ...]]] = {
    "pairs": (lambda: own("classification", {"n_segments": 2}), PAIRS),
    "pairs, compared": (
        lambda: own("classification", {"n_segments": 2, "pooling": "compare", "pooler": "gelu"}),
        PAIRS,
    ),
    "scores of pairs": (lambda: own("regression", {"n_segments": 2, "pooling": "mean"}), PAIRS),
    "a norm in the head": (
        lambda: own("multi_label_classification", {"head_transform": True, "pooling": "mean"}),
        TEXTS,
    ),
    "tags of characters that are pieces": (
        lambda: own("tagging", {"positions": "rotary"}, tag_vocabulary()),
        NAMES,
    ),
    "tags of longer pieces, RMS": (
        lambda: own(
            "tagging",
            {"head_transform": True, "norm": "rms", "norm_first": True},
            tag_vocabulary("unigram"),
        ),
        NAMES,
    ),
    "masked words": (lambda: own("masked_language_modeling", {"positions": "learned"}), MASKED),
    "masked words, an output of its own, narrow": (
        lambda: own("masked_language_modeling", {"tie_embeddings": False, "d_embedding": 16}),
        MASKED,
    ),
}


def assert_same(found: Any, output: Any, name: str) -> None:
    """The answer of the page is the output of Python, warnings included."""
    where = f"{name}: {output.text!a}"
    match output:
        case Prediction():
            assert found["label"] == output.label, where
            wanted = list(output.probabilities.values())
            assert found["probabilities"] == pytest.approx(wanted, abs=TOLERANCE), where
        case MultiLabelPrediction():
            wanted = list(output.probabilities.values())
            assert found["probabilities"] == pytest.approx(wanted, abs=TOLERANCE), where
        case RegressionOutput():
            assert found["score"] == pytest.approx(output.score, abs=TOLERANCE, rel=1e-4), where
        case TokenClassification():
            entities = [vars(each) for each in output.entities]
            assert found["entities"] == entities, where
        case GeneratedText():
            assert found["text"] == output.output, where
            assert found["score"] == pytest.approx(output.score, abs=1e-3), where
        case _:
            raise AssertionError(type(output))
    warnings = [(each.code, each.message) for each in output.warnings]
    assert [(each["code"], each["message"]) for each in found["warnings"]] == warnings, where


def answers(models: dict[str, tuple[Pipeline, Any]], folder: Path) -> dict[str, Any]:
    """What Node answers in float32, after int8 has passed its check in Node as well."""
    requests = []
    for number, (name, (model, texts)) in enumerate(models.items()):
        assert Web().unsupported_reason(model) is None, name
        for precision in ("float32", "int8"):
            out = folder / f"{number}-{precision}"
            out.mkdir()
            if precision == "float32":
                Web().convert(model, out)
                samples = random_samples(model, 8, "there are no data")
                assert Web().difference(model, out, samples) <= Web.tolerance, name
            else:
                Web().quantize(model, out, out, "int8")
            paths = {"file": str(out / MODEL), "kernel": str(out / KERNEL)}
            requests.append({**paths, "texts": texts})
    found = run_module({"models": requests}, folder)["answers"]
    for i, name in enumerate(models):
        for each in found[2 * i : 2 * i + 2]:
            assert each["check"]["passed"], f"{name}: {each['check']}"
    return dict(zip(models, found[::2], strict=True))


def test_own_models(tmp_path: Path) -> None:
    models = {name: (make(), texts) for name, (make, texts) in OWN.items()}
    found = answers(models, tmp_path)
    for name, (model, texts) in models.items():
        for answer, output in zip(found[name]["predictions"], model.predict(texts), strict=True):
            assert_same(answer, output, name)
    entities = found["tags of longer pieces, RMS"]["predictions"]
    assert any(each["entities"] for each in entities)


@pytest.fixture(scope="module")
def learned() -> TrainedTokenizers:
    return train_words(sample())


SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "vocab_size": N_PIECES + 8,
}


def imported(
    learned: TrainedTokenizers,
    folder: Path,
    family: str,
    names: tuple[str, str],
    **config: Any,
) -> Path:
    """A folder of transformers with random weights and the tokenizer of a family."""
    transformers = pytest.importorskip("transformers")
    FOLDERS[family](learned, folder)
    architecture, config_class = names
    values = getattr(transformers, config_class)(**{**SIZES, **config})
    model = randomize(getattr(transformers, architecture)(values).eval(), 0)
    model.save_pretrained(folder)
    return folder


IMPORTED: dict[str, tuple[str, tuple[str, str], dict[str, Any], Any]] = {
    "a BERT classifier of texts or pairs": (
        "bert",
        ("BertForSequenceClassification", "BertConfig"),
        {"num_labels": 3},
        (*TEXTS, *PAIRS[:3], "decomposed \u1112\u1161\u11ab\u1100\u1173\u11af"),
    ),
    "ELECTRA with its own head": (
        "electra",
        ("ElectraForSequenceClassification", "ElectraConfig"),
        {"embedding_size": 16, "num_labels": 2},
        TEXTS,
    ),
    "names of RoBERTa": (
        "roberta",
        ("RobertaForTokenClassification", "RobertaConfig"),
        {"id2label": dict(enumerate(TAGS)), "label2id": {tag: i for i, tag in enumerate(TAGS)}},
        (*NAMES[:4], "Kim's 서울 café"),
    ),
    "names of a lower-cased BERT": (
        "bert-lower",
        ("BertForTokenClassification", "BertConfig"),
        {"id2label": dict(enumerate(TAGS)), "label2id": {tag: i for i, tag in enumerate(TAGS)}},
        (*NAMES[:4], "ÀÉ  서울\u200b역"),
    ),
    "masked words of BERT": (
        "klue-roberta",
        ("RobertaForMaskedLM", "RobertaConfig"),
        {},
        (*MASKED[:4], "이 영화, [MASK] 漢[MASK]"),
    ),
    "masked words of byte-level BPE": (
        "roberta",
        ("RobertaForMaskedLM", "RobertaConfig"),
        {},
        ("이 영화<mask> 재미", "화면이 [MASK]", "[MASK]가"),
    ),
    "ModernBERT": (
        "modernbert",
        ("ModernBertForSequenceClassification", "ModernBertConfig"),
        {"num_labels": 2, "pad_token_id": 0},
        TEXTS,
    ),
}


@pytest.mark.slow
def test_imported_models(learned: TrainedTokenizers, tmp_path: Path) -> None:
    models = {}
    for number, (name, (family, names, config, texts)) in enumerate(IMPORTED.items()):
        folder = imported(learned, tmp_path / f"hf-{number}", family, names, **config)
        models[name] = (jumok.load(folder, device="cpu"), texts)
    found = answers(models, tmp_path)
    for name, (model, texts) in models.items():
        for answer, output in zip(found[name]["predictions"], model.predict(texts), strict=True):
            assert_same(answer, output, name)


@pytest.mark.slow
def test_a_folder_of_sentence_transformers(learned: TrainedTokenizers, tmp_path: Path) -> None:
    names = ("BertModel", "BertConfig")
    folder = imported(learned, tmp_path / "hf", "bert", names)
    torch.manual_seed(0)
    dense = DenseLayer(torch.randn(24, 32) / 6, torch.randn(24), nn.Tanh())
    last = DenseLayer(torch.randn(8, 24) / 5, None, nn.Identity())
    encoding = SentenceEncoding(
        "mean", (dense, Normalize(), last), 32, True, {"query": "Query: "}, "query"
    )
    write_sentence_encoding(encoding, folder, 32)
    model = jumok.load(folder, device="cpu")
    plain = jumok.load(imported(learned, tmp_path / "plain", "bert", names), device="cpu")
    texts = (*TEXTS, "ÀB İ Σς", "")
    models = {"with modules": (model, texts), "mean of the last layer": (plain, texts)}
    found = answers(models, tmp_path)
    for name, (each, _) in models.items():
        expected = each.encode(texts)
        np.testing.assert_allclose(np.array(found[name]["outputs"]), expected, atol=TOLERANCE)
        assert found[name]["predictions"][0]["task"] == "similarity"


def test_the_file_has_ids_of_odd_texts(tmp_path: Path) -> None:
    model = own("classification", {})
    Web().convert(model, tmp_path)
    settings = json.loads(read_metadata(tmp_path / MODEL)["jumok"])
    assert settings["odd_texts"] == [[text, model.vocabulary.encode(text)] for text in ODD_TEXTS]
    settings["odd_texts"][0][1][0] += 1
    (tmp_path / MODEL).write_bytes(pack(load_file(tmp_path / MODEL), settings))
    request = {"file": str(tmp_path / MODEL), "kernel": str(tmp_path / KERNEL), "texts": []}
    (answer,) = run_module({"models": [request]}, tmp_path)["answers"]
    assert not answer["check"]["passed"]
    assert answer["check"]["text"] == ODD_TEXTS[0]


def test_texts_that_a_model_does_not_read_are_refused(tmp_path: Path) -> None:
    make, _ = OWN["pairs"]
    Web().convert(make(), tmp_path)
    settings = json.loads(read_metadata(tmp_path / MODEL)["jumok"])
    must = {
        "always": "a list of two strings",
        "never": "a string",
        "optional": "a string or a list of two strings",
    }
    wrong: list[tuple[Any, str]] = [
        (None, "null"),
        (["비"], "a list of 1"),
        (["비", 3], "a list of 2"),
    ]
    jobs: list[dict[str, Any]] = []
    for pairs in must:
        file = tmp_path / f"{pairs}.safetensors"
        file.write_bytes(
            pack(load_file(tmp_path / MODEL), settings | {"pairs": pairs, "examples": []})
        )
        calls = [[text] for text, _ in wrong] + [
            [["비", "눈"] if pairs != "never" else "비", {"beam": 2}]
        ]
        jobs.append(
            {"file": str(file), "kernel": str(tmp_path / KERNEL), "texts": [], "wrong": calls}
        )
    jobs[0]["wrong"].append(["비"])
    found = [each["refused"] for each in run_module({"models": jobs}, tmp_path)["answers"]]
    assert found[0].pop() == f'Error: the text must be {must["always"]}, got "비"'
    no_options = "generates no text and has no options; use predict(text)"
    for sentence, said in zip(must.values(), found, strict=True):
        expected = [f"Error: the text must be {sentence}, got {shown}" for _, shown in wrong]
        assert said == [*expected, f"Error: a model for classification {no_options}"]


def test_what_the_page_cannot_compute_is_refused() -> None:
    characters = own("tagging", {"tagging": "characters"}, tag_vocabulary("unigram"))
    assert isinstance(characters.model, CharacterClassifier)
    assert 'model.tagging = "pieces"' in str(Web().unsupported_reason(characters))
