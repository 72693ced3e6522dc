"""All checks on a random model of each family of Llama, as `jumok check FOLDER` runs them."""

from pathlib import Path
from typing import Any

import pytest

from jumok.checks import CheckTarget, all_checks, draw_samples, run_checks, text_samples
from jumok.checks.variants import Compiled
from jumok.tasks.runs.load import load
from tests import hf_folders
from tests.pretrained.hf_variants import HAS_EXAONE

pytest.importorskip("transformers")

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 1e4,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,  # texts are up to 40 tokens long
}
SETTINGS: dict[str, dict[str, Any]] = {
    "llama": {"rope_parameters": LLAMA3},
    "mistral": {},  # a window of 6 tokens
    "qwen2": {},
    "qwen3": {},
    "gemma3_text": {},
    "exaone": {"rope_parameters": LLAMA3},
    "exaone4": {},
}
TEXTS = ["이 영화 재미있어요", "삼 일 오 구 이 육"]


@pytest.mark.slow
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("family", SETTINGS)
def test_all_rows_hold(family: str, tmp_path: Path) -> None:
    hf_folders.llama(tmp_path, family, **SETTINGS[family])
    pipeline = load(tmp_path, device="cpu")
    samples = [*text_samples(pipeline, TEXTS), *draw_samples(pipeline)]
    assert max(len(sample.ids) for sample in samples) == pipeline.recipe.model.max_length
    checks = all_checks(compiled=Compiled("eager"))  # inductor takes a minute for each
    outcomes = list(run_checks(CheckTarget(pipeline, samples, n_texts=len(TEXTS)), checks))
    assert [each for each in outcomes if each.result == "fail"] == []
    skipped = {each.equality for each in outcomes if each.result == "not applicable"}
    expected = {"exported = jumok (onnx)", "exported = jumok (ctranslate2)"}
    expected |= {"vectors alone = batched", "exported = jumok (sentence-transformers)"}
    if family == "exaone" and not HAS_EXAONE:  # before transformers 5.24
        expected |= {"original = jumok", "exported = jumok (hf)"}
        reasons = {each.equality: each.reason for each in outcomes}
        assert "has no class ExaoneForCausalLM" in reasons["original = jumok"]
    assert skipped == expected, outcomes
