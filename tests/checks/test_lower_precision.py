"""How far formats move numbers, and that the tolerance follows a model's own sensitivity."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jumok.checks.lower_precision import BFLOAT16, INT8, bfloat16_half_step, int8_half_step
from jumok.models import EncoderDecoder, MaskedLanguageModel
from jumok.native import quantize_rows
from tests.checks.check_targets import subject
from tests.nn.strategies import noise, seeds


@given(seeds, st.floats(1e-20, 1e20))
def test_bfloat16_moves_no_number_further(seed: int, size: float) -> None:
    x = noise(3, 50, seed=seed) * size
    assert ((x.bfloat16().float() - x).abs() <= bfloat16_half_step(x)).all()


@given(seeds, st.floats(1e-20, 1e20))
def test_int8_moves_no_number_further(seed: int, size: float) -> None:
    x = noise(3, 50, seed=seed) * size
    q, scale = quantize_rows(x)
    assert ((q * scale[:, None] - x).abs() <= 1.001 * int8_half_step(x)).all()  # rounding of floats


@pytest.mark.parametrize("rounding", [BFLOAT16, INT8])
def test_the_tolerance_is_the_same_every_time_and_leaves_the_model_alone(rounding) -> None:
    asked = subject(EncoderDecoder)
    before = {name: weight.clone() for name, weight in asked.loaded.model.state_dict().items()}
    assert rounding(asked) == rounding(asked)
    assert 1e-3 < rounding(asked) < 1.0
    for name, weight in asked.loaded.model.state_dict().items():
        assert torch.equal(weight, before[name]), name
    assert not any(module._forward_hooks for module in asked.loaded.model.modules())


def test_a_model_that_enlarges_errors_is_granted_more() -> None:
    asked = subject(MaskedLanguageModel)
    before = BFLOAT16(asked)
    with torch.no_grad():
        for layer in asked.loaded.model.encoder.stack.layers:
            layer.self_attention.query.weight.mul_(30)
    assert BFLOAT16(asked) > 2 * before
