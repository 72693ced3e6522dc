"""Rounding errors of the formats, and a tolerance that follows the model's sensitivity."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jumok.checks.lower_precision import BFLOAT16, INT8, bfloat16_half_step, int8_half_step
from jumok.models import EncoderDecoder, MaskedLanguageModel
from jumok.native import quantize_rows
from tests.checks.check_targets import check_target
from tests.nn.strategies import noise, seeds


@given(seeds, st.floats(1e-20, 1e20))
def test_bfloat16_rounding_error(seed: int, size: float) -> None:
    x = noise(3, 50, seed=seed) * size
    assert ((x.bfloat16().float() - x).abs() <= bfloat16_half_step(x)).all()


@given(seeds, st.floats(1e-20, 1e20))
def test_int8_rounding_error(seed: int, size: float) -> None:
    x = noise(3, 50, seed=seed) * size
    q, scale = quantize_rows(x)
    assert ((q * scale[:, None] - x).abs() <= 1.001 * int8_half_step(x)).all()  # rounding of floats


@pytest.mark.parametrize("rounding", [BFLOAT16, INT8])
def test_the_tolerance_is_deterministic_and_does_not_change_the_model(rounding) -> None:
    target = check_target(EncoderDecoder)
    before = {name: weight.clone() for name, weight in target.pipeline.model.state_dict().items()}
    assert rounding(target) == rounding(target)
    assert 1e-3 < rounding(target) < 1.0
    for name, weight in target.pipeline.model.state_dict().items():
        assert torch.equal(weight, before[name]), name
    assert not any(module._forward_hooks for module in target.pipeline.model.modules())


def test_a_model_that_amplifies_errors_gets_a_larger_tolerance() -> None:
    target = check_target(MaskedLanguageModel)
    before = BFLOAT16(target)
    with torch.no_grad():
        for layer in target.pipeline.model.encoder.stack.layers:
            layer.self_attention.query.weight.mul_(30)
    assert BFLOAT16(target) > 2 * before
