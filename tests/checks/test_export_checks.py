"""Exported models run in their own library must agree with the original model."""

from pathlib import Path

import pytest

import jumok
from jumok.checks import CheckTarget
from jumok.checks.suite import EXPORT_CHECKS, ExportCheck
from jumok.models import Encoder, EncoderDecoder, TokenClassifier
from tests.checks.check_targets import check_target


def row(to: str) -> ExportCheck:
    return next(row for row in EXPORT_CHECKS if row.format == to)


def test_an_encoder_decoder_in_ctranslate2(reading_run: Path) -> None:
    pytest.importorskip("ctranslate2")
    result = row("ctranslate2").measure(CheckTarget(jumok.load(reading_run), []))
    assert result.equality == "exported = jumok (ctranslate2)"
    assert result.result == "pass", result
    assert result.difference is not None
    assert 0.0 < result.difference < 1e-4


@pytest.mark.filterwarnings("ignore")  # transformers' own
def test_an_encoder_decoder_in_transformers(reading_run: Path) -> None:
    pytest.importorskip("transformers")
    result = row("hf").measure(CheckTarget(jumok.load(reading_run), []))
    assert result.result == "pass", result


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the exporter's own libraries
def test_a_tagger_in_onnx() -> None:
    for library in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(library)
    result = row("onnx").measure(check_target(TokenClassifier, n_layers=1))
    assert result.result == "pass", result


@pytest.mark.parametrize(
    ("target", "to"),
    [(check_target(EncoderDecoder), "onnx"), (check_target(Encoder), "ctranslate2")],
)
def test_unsupported_models(target: CheckTarget, to: str) -> None:
    result = row(to).measure(target)
    assert result.result == "not applicable"
    assert result.reason
