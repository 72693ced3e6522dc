"""Imported checkpoints: all checks pass, also the comparison with transformers.

`test_llama_families` has the families of Llama.
"""

import json
from pathlib import Path

import pytest
import torch

import jumok
from jumok.checks import CheckTarget, draw_samples
from jumok.checks.invariance import NotApplicable
from jumok.checks.variants import transformers_outputs
from jumok.models import TextClassifier
from tests.checks.check_targets import check_target
from tests.checks.test_suite import having, measured

pytest.importorskip("transformers")

from tests.errors import raises
from tests.pretrained.hf_variants import VARIANTS

SOME = (
    *("bert-bare", "bert-masked", "bert-texts", "roberta-tokens", "electra-discriminator"),
    *("distilbert-masked", "gpt2-bare", "gpt2-language", "t5-relu", "t5-bare", "bart-plain"),
    *("mbart-plain", "marian-plain"),
)
FOREIGN = [variant for variant in VARIANTS if variant.name in SOME]
quiet = pytest.mark.filterwarnings("ignore")  # transformers' own


def opened(folder: Path) -> CheckTarget:
    loaded = jumok.load(folder)
    return CheckTarget(loaded, draw_samples(loaded), padding_id=20)


@pytest.mark.slow
@quiet
@pytest.mark.parametrize("variant", FOREIGN, ids=lambda variant: variant.name)
def test_all_checks_pass(variant, tmp_path: Path) -> None:
    variant.save(tmp_path)
    outcomes = measured(opened(tmp_path))
    assert having("fail", outcomes) == set(), outcomes
    assert outcomes["original = jumok"].result == "pass"


@quiet
def test_another_original_fails(tmp_path: Path) -> None:
    (variant,) = (variant for variant in FOREIGN if variant.name == "bert-texts")
    variant.save(tmp_path)
    target = opened(tmp_path)
    variant.save(tmp_path, seed=1)
    assert having("fail", measured(target)) == {"original = jumok"}


@quiet
def test_an_original_that_raises_fails_with_a_reason(tmp_path: Path) -> None:
    (variant,) = (variant for variant in FOREIGN if variant.name == "bert-texts")
    variant.save(tmp_path)
    target = opened(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"hidden_size": 12}))
    result = measured(target)["original = jumok"]
    assert result.result == "fail"
    assert result.reason


def test_a_trained_model_was_not_imported(tmp_path: Path) -> None:
    with raises(NotApplicable, "check.model_not_imported"):
        transformers_outputs(check_target(TextClassifier))


def test_a_folder_without_its_weights(tmp_path: Path) -> None:
    (variant,) = (variant for variant in FOREIGN if variant.name == "bert-texts")
    variant.save(tmp_path)
    target = opened(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with torch.inference_mode(), raises(NotApplicable, "check.original_folder_needed"):
        transformers_outputs(target)
