"""Exported models in their own library: rows that measure where the export is made."""

from pathlib import Path

import pytest

import jumok
from jumok.checks import Subject
from jumok.checks.exporting import EXPORTED, Exported
from jumok.models import Encoder, EncoderDecoder, TokenClassifier
from tests.checks.check_targets import subject


def row(to: str) -> Exported:
    return next(row for row in EXPORTED if row.to == to)


def test_a_writer_in_ctranslate2(reading_run: Path) -> None:
    pytest.importorskip("ctranslate2")
    outcome = row("ctranslate2").measure(Subject(jumok.load(reading_run), []))
    assert outcome.equality == "exported = ours (ctranslate2)"
    assert outcome.result == "pass", outcome
    assert outcome.difference is not None
    assert 0.0 < outcome.difference < 1e-4


@pytest.mark.filterwarnings("ignore")  # transformers' own
def test_a_writer_in_transformers(reading_run: Path) -> None:
    pytest.importorskip("transformers")
    outcome = row("hf").measure(Subject(jumok.load(reading_run), []))
    assert outcome.result == "pass", outcome


@pytest.mark.filterwarnings("ignore")  # of the exporter's own libraries
def test_a_tagger_in_onnx() -> None:
    for library in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(library)
    outcome = row("onnx").measure(subject(TokenClassifier, n_layers=1))
    assert outcome.result == "pass", outcome


@pytest.mark.parametrize(
    ("asked", "to"), [(subject(EncoderDecoder), "onnx"), (subject(Encoder), "ctranslate2")]
)
def test_what_cannot_be_expressed_there(asked: Subject, to: str) -> None:
    outcome = row(to).measure(asked)
    assert outcome.result == "not applicable"
    assert outcome.reason
