"""Checkpoints of others: every row holds, and that of the original with transformers itself."""

import json
from pathlib import Path

import pytest
import torch

import jumok
from jumok.checks import Subject, draw_samples
from jumok.checks.invariance import NotApplicable
from jumok.checks.original import opened_by_transformers
from jumok.models import TextClassifier
from tests.checks.check_targets import subject
from tests.checks.test_suite import having, measured

pytest.importorskip("transformers")

from tests.pretrained.hf_variants import VARIANTS

SOME = (
    *("bert-bare", "bert-masked", "bert-texts", "roberta-tokens", "electra-discriminator"),
    *("distilbert-masked", "gpt2-bare", "gpt2-language", "t5-relu", "t5-bare", "bart-plain"),
    *("mbart-plain", "marian-plain"),
)
FOREIGN = [variant for variant in VARIANTS if variant.name in SOME]
quiet = pytest.mark.filterwarnings("ignore")  # transformers' own


def opened(folder: Path) -> Subject:
    loaded = jumok.load(folder)
    return Subject(loaded, draw_samples(loaded), filler=20)


@quiet
@pytest.mark.parametrize("variant", FOREIGN, ids=lambda variant: variant.name)
def test_all_rows_hold(variant, tmp_path: Path) -> None:
    variant.save(tmp_path)
    outcomes = measured(opened(tmp_path))
    assert having("fail", outcomes) == set(), outcomes
    assert outcomes["original = ours"].result == "pass"


@quiet
def test_another_original_fails(tmp_path: Path) -> None:
    (variant,) = (variant for variant in FOREIGN if variant.name == "bert-texts")
    variant.save(tmp_path)
    asked = opened(tmp_path)
    variant.save(tmp_path, seed=1)
    assert having("fail", measured(asked)) == {"original = ours"}


@quiet
def test_an_original_that_breaks_fails_in_words(tmp_path: Path) -> None:
    (variant,) = (variant for variant in FOREIGN if variant.name == "bert-texts")
    variant.save(tmp_path)
    asked = opened(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"hidden_size": 12}))
    outcome = measured(asked)["original = ours"]
    assert outcome.result == "fail"
    assert outcome.reason


def test_what_was_trained_here_has_no_original(tmp_path: Path) -> None:
    with pytest.raises(NotApplicable, match="trained here"):
        opened_by_transformers(subject(TextClassifier))


def test_a_folder_without_its_weights(tmp_path: Path) -> None:
    (variant,) = (variant for variant in FOREIGN if variant.name == "bert-texts")
    variant.save(tmp_path)
    asked = opened(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with torch.inference_mode(), pytest.raises(NotApplicable, match="only its config was kept"):
        opened_by_transformers(asked)
