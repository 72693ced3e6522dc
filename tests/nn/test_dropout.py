"""Dropout: mean, rate, the same mask in forward and backward, the identity in eval."""

import math

import pytest
import torch

from jumok.nn import Dropout
from jumok.nn.dropout import BYTE_LEVELS, dropout, random_bytes
from tests.nn.strategies import noise
from tests.nn.tolerances import close

RATES = [1e-4, 1 / 256, 0.01, 0.1, 0.5, 0.9, 0.9999]


def rounded(p: float) -> float:
    """The rate that is used: a multiple of 1/256, neither 0 nor 1."""
    return min(max(round(p * BYTE_LEVELS), 1), BYTE_LEVELS - 1) / BYTE_LEVELS


@pytest.mark.parametrize("p", RATES)
def test_rate_and_mean(p: float) -> None:
    """Within 4 standard deviations; the seed is fixed, so this never fails by chance."""
    n = 400_000
    torch.manual_seed(1)
    y = dropout(torch.ones(n), p)
    hidden, p = int((y == 0).sum()), rounded(p)
    assert abs(hidden - n * p) < 4 * math.sqrt(n * p * (1 - p))
    assert y.unique().numel() == 2
    assert y.max().item() == pytest.approx(1 / (1 - p))
    assert y.mean().item() == pytest.approx(1, abs=4 * math.sqrt(p / (1 - p) / n))


def test_neighbouring_numbers_are_dropped_independently() -> None:
    torch.manual_seed(2)
    n = 2**18
    kept = dropout(torch.ones(n), 0.5) > 0
    for shift in (1, 2, 7, 8, 64):
        agree = int((kept[shift:] == kept[:-shift]).sum())
        assert abs(agree - (n - shift) / 2) < 4 * math.sqrt(n) / 2, shift


def test_bytes_are_uniform_at_every_offset_of_a_word() -> None:
    torch.manual_seed(3)
    n = 2**20
    for location in random_bytes(n).view(-1, 8).unbind(-1):
        counts = torch.bincount(location.int(), minlength=256).double()
        expected = n / 8 / 256
        chi_square = float(((counts - expected) ** 2 / expected).sum())
        assert abs(chi_square - 255) < 4 * math.sqrt(2 * 255)


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 1000])
def test_the_number_of_bytes(n: int) -> None:
    assert random_bytes(n).shape == (n,)
    assert dropout(torch.ones(n), 0.5).shape == (n,)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_gradient_uses_the_same_mask(dtype: torch.dtype) -> None:
    x = noise(3, 50, dtype=dtype).requires_grad_()
    y = dropout(x, 0.3)
    upward = noise(3, 50, seed=1, dtype=dtype)
    y.backward(upward)
    kept = y.detach() != 0
    assert x.grad is not None
    assert y.dtype == x.grad.dtype == dtype
    assert close(x.grad, kept * upward / (1 - rounded(0.3)), 1e-2)
    assert 0 < int(kept.sum()) < kept.numel()


def test_gradcheck_with_a_fixed_mask() -> None:
    def dropped(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(4)
        return dropout(x, 0.4)

    assert torch.autograd.gradcheck(dropped, noise(4, 5, dtype=torch.float64).requires_grad_())


def test_the_seed_determines_the_mask() -> None:
    x = torch.ones(1000)
    torch.manual_seed(5)
    first, second = dropout(x, 0.5), dropout(x, 0.5)
    torch.manual_seed(5)
    assert torch.equal(dropout(x, 0.5), first)
    assert not torch.equal(first, second)


def test_eval_and_rate_zero_are_the_identity() -> None:
    x = noise(4, 5)
    assert Dropout(0.9).eval()(x) is x
    assert Dropout(0.0).train()(x) is x
    assert not torch.equal(Dropout(0.9).train()(x), x)
    assert "p=0.9" in repr(Dropout(0.9))


@pytest.mark.parametrize("lowered", [torch.float32, torch.bfloat16])
def test_the_residual_sum_in_one_pass(lowered: torch.dtype) -> None:
    """x + dropout(y); under autocast x stays float32 while y is bfloat16."""
    results = []
    for at_once in (True, False):
        x = noise(3, 50).requires_grad_()
        y = noise(3, 50, seed=1, dtype=lowered).requires_grad_()
        part = Dropout(0.3).train()
        torch.manual_seed(6)
        z = part.add_residual(x, y) if at_once else x + part(y)
        z.backward(noise(3, 50, seed=2))
        assert z.dtype == torch.float32
        assert x.grad is not None
        assert y.grad is not None
        assert y.grad.dtype == lowered
        results.append([z.detach(), x.grad, y.grad])
    for actual, other in zip(*results, strict=True):
        assert close(actual, other, 1e-6 if lowered == torch.float32 else 1e-2)
    x, y = noise(3, 50), noise(3, 50, seed=1)
    assert torch.equal(Dropout(0.3).eval().add_residual(x, y), x + y)


def test_bfloat16_rounds_the_scale() -> None:
    """256 / 230 becomes 1.109 there: the mean is kept to one part in 256."""
    torch.manual_seed(7)
    n, p = 400_000, rounded(0.1)
    mean = dropout(torch.ones(n, dtype=torch.bfloat16), 0.1).float().mean().item()
    assert mean == pytest.approx(1, abs=1 / 256 + 4 * math.sqrt(p / (1 - p) / n))
