"""`--to web`: the packed file in Node gives the outputs of the native kernel and of PyTorch."""

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from jumok.errors import ExportError
from jumok.export import get_target
from jumok.export.export_run import check_exportable
from jumok.export.samples import random_samples
from jumok.formats import web
from jumok.formats.web import KERNEL, MODEL, PAGE, Web
from jumok.models import ReplacedTokenDetector
from jumok.safetensors_io import read_metadata
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.registry import get_task
from jumok.viewer.page import csp_hash
from jumok.viewer.static_files import static_file
from tests.errors import raises
from tests.export.small_models import config, drawn
from tests.formats.web_module import run_module
from tests.tasks.tiny_jobs import CPU, LABELS, recipe, review_vocabulary

pytestmark = pytest.mark.usefixtures("compiled")

TEXTS = ("이 영화 재미있어요", "배우들이 별로예요 ㅠㅠ", "", "가" * 60, "화면이 👍\u200d 최고예요")
TOLERANCE = {"float32": 1e-4, "int8": 0.1}  # as in the file

MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "sinusoidal, post-norm": ("classification", {"pooling": "mean"}),
    "rotary, pre-norm, gated, RMS": (
        "multi_label_classification",
        {
            "positions": "rotary",
            "norm_first": True,
            "gated": True,
            "norm": "rms",
            "activation": "silu",
            "pooling": "max",
            "n_layers": 2,
        },
    ),
    "learned, a pooler": (
        "regression",
        {"positions": "learned", "embedding_norm": True, "pooler": "tanh"},
    ),
    "relative, narrow embeddings": (
        "similarity",
        {
            "positions": "relative",
            "d_embedding": 16,
            "pooling": "mean",
            "bias": False,
            "n_segments": 0,  # the data have pairs, and the model reads one text
        },
    ),
}


def pipeline(name: str) -> Pipeline:
    task_name, model = MODELS[name]
    vocabulary = review_vocabulary()
    plan = recipe(task_name, model).with_vocabulary(len(vocabulary))
    task = get_task(plan.task)
    labels = LABELS if "classification" in task_name else ()
    network = drawn(task.build_model(plan.model, labels))
    return Pipeline(task, network, vocabulary, plan, labels, CPU)


def outputs(model: Pipeline) -> torch.Tensor:
    """What PyTorch computes for the texts."""
    tokenizer, longest = model.vocabulary, model.recipe.model.max_length
    rows = [
        tokenizer.input_template.apply_one(tokenizer.encode(text), None, longest).ids
        for text in TEXTS
    ]
    return torch.cat([model.model(torch.tensor([row])) for row in rows])


def test_node_computes_the_outputs_of_pytorch(tmp_path: Path) -> None:
    requests, pipelines = [], {}
    for name in MODELS:
        pipelines[name] = pipeline(name)
        for quantize in (None, "int8"):
            folder = tmp_path / f"{name}-{quantize}"
            folder.mkdir()
            Web().convert(pipelines[name], folder)
            samples = random_samples(pipelines[name], 8, "there are no data")
            assert Web().difference(pipelines[name], folder, samples) <= Web.tolerance
            if quantize:
                Web().quantize(pipelines[name], folder, folder, "int8")
            paths = {"file": str(folder / MODEL), "kernel": str(folder / KERNEL)}
            requests.append({**paths, "texts": TEXTS})
    answers = run_module({"models": requests}, tmp_path)["answers"]
    for i, answer in enumerate(answers):
        model = list(pipelines.values())[i // 2]
        tolerance = TOLERANCE["int8" if i % 2 else "float32"]
        expected = outputs(model).numpy()
        difference = np.abs(np.array(answer["outputs"]) - expected).max()
        assert difference / max(1, np.abs(expected).max()) <= tolerance, list(MODELS)[i // 2]
        assert answer["check"]["passed"], answer["check"]
        assert answer["check"]["tolerance"] == tolerance
        assert answer["truncated"] == [False, False, False, True, False]
    predicted = pipelines["sinusoidal, post-norm"](list(TEXTS))
    for found, own in zip(answers[0]["predictions"], predicted, strict=True):
        assert found["label"] == own.label  # type: ignore[attr-defined]
        wanted = list(own.probabilities.values())  # type: ignore[attr-defined]
        assert found["probabilities"] == pytest.approx(wanted, abs=1e-4)
    several = pipelines["rotary, pre-norm, gated, RMS"](list(TEXTS))
    for found, own in zip(answers[2]["predictions"], several, strict=True):
        assert tuple(found["labels"]) == own.labels  # type: ignore[attr-defined]


def test_a_page_runs_nothing_but_its_own_scripts(tmp_path: Path) -> None:
    model = pipeline("sinusoidal, post-norm")
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        Web().convert(model, tmp_path / folder)
    page = (tmp_path / "one" / PAGE).read_bytes()
    assert page == (tmp_path / "two" / PAGE).read_bytes()
    policy = page.decode().partition('Content-Security-Policy" content="')[2].partition('"')[0]
    script = csp_hash(static_file("model.js").content.decode())
    assert "default-src 'none'" in policy
    assert script in policy
    assert policy.count("unsafe") == policy.count("wasm-unsafe-eval") == 1
    settings = json.loads(read_metadata(tmp_path / "one" / MODEL)["jumok"])
    assert settings["labels"] == list(LABELS)
    (packed,) = re.findall(r'id="packed-font"[^>]*>([^<]*)<', page.decode())
    font = gzip.decompress(base64.b64decode(packed))
    assert font == static_file("JumokHangul.woff2").content  # a user may type any syllable


def test_a_model_that_does_not_fit_into_a_page_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(web, "MAX_BYTES", 1_000)
    with raises(ExportError, "web.model_too_large"):
        Web().convert(pipeline("sinusoidal, post-norm"), tmp_path)


def test_models_that_the_page_cannot_run_are_refused() -> None:
    model = pipeline("sinusoidal, post-norm")
    model.model = ReplacedTokenDetector(config())
    assert "ReplacedTokenDetector" in str(get_target("web").unsupported_reason(model))
    with raises(ExportError, "export.unsupported"):
        check_exportable(get_target("web"), model)


def test_the_kernel_and_its_script_stay_small() -> None:
    size = sum(len(static_file(name).content) for name in (KERNEL, "jumok.js"))
    assert size <= 450_000
