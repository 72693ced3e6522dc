"""int8 and bfloat16 copies: rounding errors, and that a trained model generates the same."""

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from jumok.native import NativeDecoder, NativeModel, quantize_int8, quantize_rows, to_bfloat16
from jumok.native.quantize import QuantizedLinear
from tests.native.conftest import KINDS, encoder_decoder, language_model


@given(st.integers(1, 9), st.integers(1, 9), st.floats(1e-20, 1e20), st.integers(0, 99))
def test_rounding_error_is_at_most_half_a_scale(N: int, K: int, size: float, seed: int) -> None:
    x = torch.randn(N, K, generator=torch.Generator().manual_seed(seed)) * size
    q, scale = quantize_rows(x)
    assert q.dtype == torch.int8
    assert ((q * scale[:, None] - x).abs() <= 0.501 * scale[:, None]).all()  # float rounding
    assert torch.equal(q.int().abs().amax(1), torch.full((N,), 127))


def test_zero_row_stays_zero() -> None:
    linear = nn.Linear(8, 3)
    assert torch.equal(QuantizedLinear(linear)(torch.zeros(2, 8)), linear.bias.expand(2, -1))


def test_nan_propagates_to_its_row_only(compiled: Path) -> None:
    """In QuantizedLinear and in the kernel; other rows are unaffected."""
    linear = QuantizedLinear(nn.Linear(8, 3))
    x = torch.randn(2, 8)
    x[1, 5] = math.nan
    assert linear(x).isnan().tolist() == [[False] * 3, [True] * 3]
    model = language_model("untied")
    with torch.no_grad():
        next(w for w in model.parameters() if len(w) == 77)[5] = 3e38  # its sum is not finite
    logits = NativeDecoder(NativeModel(model, "int8"), capacity=2).step_all(
        torch.tensor([[4, 7], [4, 5]])
    )
    assert logits.isnan().all(-1).tolist() == [[False, False], [False, True]]
    assert logits[0].isfinite().all()


def test_integer_products_are_exact() -> None:
    linear = nn.Linear(512, 4, bias=False)
    torch.manual_seed(0)
    weight, x = (torch.randint(-127, 128, (n, 512)).float() for n in (4, 3))
    weight[:, 0] = x[:, 0] = 127
    with torch.no_grad():
        linear.weight.copy_(weight)
    assert torch.equal(QuantizedLinear(linear)(x), x @ weight.T)


@pytest.mark.parametrize(("convert", "tolerance"), [(quantize_int8, 0.1), (to_bfloat16, 0.05)])
@pytest.mark.parametrize("kind", KINDS)
def test_copy_approximates_the_logits(kind, convert, tolerance) -> None:
    model = encoder_decoder(kind)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    source, target = torch.arange(3, 17).view(2, 7), torch.arange(20, 30).view(2, 5)
    with torch.inference_mode():
        expected, actual = model(source, target), convert(model)(source, target).float()
    assert (actual - expected).abs().max() < tolerance * expected.abs().max()
    assert (actual != expected).any()
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, before[name]), name
