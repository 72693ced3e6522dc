"""The public names of jumok: sorted, all there, and fetched only when they are asked for."""

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


def test_what_is_loaded_and_all_it_answers_with_is_public() -> None:
    assert get_type_hints(jumok.load)["return"] is jumok.Pipeline
    found = vars(importlib.import_module("jumok.tasks.pipeline.outputs")).items()
    answers = {name for name, kind in found if is_dataclass(kind) and hasattr(kind, "shown")}
    assert answers == {"RegressionOutput", "Prediction", "GeneratedText", "TokenClassification"}
    assert answers <= set(jumok.__all__)


def test_every_public_name_is_there() -> None:
    missing = [name for name in jumok.__all__ if not hasattr(jumok, name)]
    assert missing == []
    assert set(jumok.__all__) <= set(dir(jumok))


def test_a_name_that_is_not_there_is_refused_as_everywhere_in_python() -> None:
    with pytest.raises(AttributeError, match="Transformr"):
        _ = jumok.Transformr  # type: ignore[attr-defined]


def test_public_names_are_the_parts_themselves() -> None:
    models = importlib.import_module("jumok.models")
    for name in ("Decoder", "Encoder", "EncoderDecoder", "TransformerConfig"):
        assert getattr(jumok, name) is getattr(models, name)


def test_everything_public_says_what_it_is() -> None:
    silent = [
        name
        for name in jumok.__all__
        if not name.startswith("__") and not getattr(jumok, name).__doc__
    ]
    assert silent == []


def test_the_version_is_the_installed_one() -> None:
    assert jumok.__version__ == importlib.metadata.version("jumok")


def test_a_star_import_brings_the_public_names_and_no_more() -> None:
    code = (
        "before = set(globals()) | {'before'}\n"
        "from jumok import *\n"
        "print(*sorted(set(globals()) - before))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == sorted(jumok.__all__)
