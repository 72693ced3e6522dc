"""The public names of jumok: sorted, complete, imported on first access."""

import importlib
import importlib.metadata
import subprocess
import sys
from dataclasses import is_dataclass
from typing import get_type_hints

import pytest

import jumok

PROMISED = {
    "Decoder",
    "Encoder",
    "EncoderDecoder",
    "MultiLabelPrediction",
    "Pipeline",
    "Prediction",
    "Trace",
    "TransformerConfig",
    "__version__",
    "load",
    "trace",
}


def test_the_public_names_are_sorted() -> None:
    assert list(jumok.__all__) == sorted(jumok.__all__)
    assert set(jumok.__all__) >= PROMISED


def test_the_pipeline_and_all_its_outputs_are_public() -> None:
    assert get_type_hints(jumok.load)["return"] is jumok.Pipeline
    found = vars(importlib.import_module("jumok.tasks.pipeline.outputs")).items()
    answers = {name for name, kind in found if is_dataclass(kind) and hasattr(kind, "display")}
    assert answers == {
        "GeneratedText",
        "MultiLabelPrediction",
        "Prediction",
        "RegressionOutput",
        "TokenClassification",
    }
    assert answers <= set(jumok.__all__)


def test_every_public_name_exists() -> None:
    missing = [name for name in jumok.__all__ if not hasattr(jumok, name)]
    assert missing == []
    assert set(jumok.__all__) <= set(dir(jumok))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Transformr"):
        _ = jumok.Transformr  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["nn", "models", "text", "experiment", "nn.masks", "training"])
def test_a_module_is_an_attribute_without_an_import_of_its_own(name: str) -> None:
    code = f"import jumok; print(jumok.{name}.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"jumok.{name}"


def test_public_names_are_the_objects_of_their_modules() -> None:
    models = importlib.import_module("jumok.models")
    for name in ("Decoder", "Encoder", "EncoderDecoder", "TransformerConfig"):
        assert getattr(jumok, name) is getattr(models, name)


def test_every_public_name_has_a_docstring() -> None:
    undocumented = [
        name
        for name in jumok.__all__
        if not name.startswith("__") and not getattr(jumok, name).__doc__
    ]
    assert undocumented == []


def test_the_version_is_the_installed_one() -> None:
    assert jumok.__version__ == importlib.metadata.version("jumok")


@pytest.mark.slow
def test_a_star_import_imports_exactly_the_public_names() -> None:
    code = (
        "before = set(globals()) | {'before'}\n"
        "from jumok import *\n"
        "print(*sorted(set(globals()) - before))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == sorted(jumok.__all__)
