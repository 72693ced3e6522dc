"""The loss in parts is the loss of the whole table, and so are its derivatives."""

import pytest
import torch
from torch import Tensor, nn

from jumok.nn.fused_linear_cross_entropy import CHUNK, fused_linear_cross_entropy
from jumok.nn.losses import cross_entropy, rdrop_kl


def written_out(
    hidden: Tensor, output: nn.Linear, wanted: Tensor, smoothing: float, rdrop_alpha: float
) -> Tensor:
    logits = output(hidden)
    log_p = logits.log_softmax(-1)
    picked = -log_p.gather(1, wanted[:, None]).sum()
    loss = (1 - smoothing) * picked - smoothing * log_p.mean(-1).sum()
    if rdrop_alpha:
        p, q = log_p.chunk(2)
        loss = loss + rdrop_alpha * ((p.exp() - q.exp()) * (p - q)).sum() / 2
    return loss


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rdrop_alpha", [0.0, 1.5])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("n", [2, CHUNK, 2 * CHUNK + 34])
def test_the_same_loss_and_derivatives(
    n: int, smoothing: float, rdrop_alpha: float, bias: bool
) -> None:
    torch.manual_seed(n)
    output = nn.Linear(6, 11, bias=bias).double()
    hidden = torch.randn(n, 6, dtype=torch.float64, requires_grad=True)
    wanted = torch.randint(11, (n // 2,)).repeat(2)
    inputs = [hidden, *output.parameters()]
    ours = fused_linear_cross_entropy(
        hidden, output, wanted, label_smoothing=smoothing, rdrop_alpha=rdrop_alpha
    )
    theirs = written_out(hidden, output, wanted, smoothing, rdrop_alpha)
    assert torch.allclose(ours, theirs, rtol=1e-12)
    weight = torch.tensor(0.25, dtype=torch.float64)  # what a trainer divides by
    for mine, other in zip(
        torch.autograd.grad(ours * weight, inputs),
        torch.autograd.grad(theirs * weight, inputs),
        strict=True,
    ):
        assert torch.allclose(mine, other, rtol=1e-9, atol=1e-12)


def test_the_same_as_the_separate_losses() -> None:
    torch.manual_seed(0)
    output, hidden = nn.Linear(6, 11, bias=False), torch.randn(40, 6)
    wanted = torch.randint(11, (20,)).repeat(2)
    logits = output(hidden)
    plain = cross_entropy(logits, wanted, 0.1) + 2 * rdrop_kl(*logits.chunk(2))
    ours = fused_linear_cross_entropy(hidden, output, wanted, label_smoothing=0.1, rdrop_alpha=2)
    assert torch.allclose(ours, plain, rtol=1e-5)  # both sum in float32


def test_in_bfloat16_the_sums_are_float32() -> None:
    torch.manual_seed(0)
    output, wanted = nn.Linear(32, 500, bias=False), torch.randint(500, (600,))
    hidden = torch.randn(600, 32, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        ours = fused_linear_cross_entropy(hidden, output, wanted)
        plain = cross_entropy(output(hidden), wanted)
    assert ours.dtype == torch.float32
    assert torch.allclose(ours, plain, rtol=1e-5)  # the same bfloat16 logits
    for mine, other in zip(
        torch.autograd.grad(ours, [hidden, output.weight]),
        torch.autograd.grad(plain, [hidden, output.weight]),
        strict=True,
    ):
        assert mine.dtype == torch.float32
        error = (mine - other).abs().max() / other.abs().max()
        assert error < 1e-2  # 8 bits of mantissa


def test_no_gradients_without_requires_grad() -> None:
    output, wanted = nn.Linear(4, 5), torch.tensor([1, 2, 3])
    with torch.inference_mode():
        loss = fused_linear_cross_entropy(torch.ones(3, 4), output, wanted)
    assert not loss.requires_grad
    assert torch.allclose(loss, cross_entropy(output(torch.ones(3, 4)), wanted))


def test_two_views_need_an_even_number_of_tokens() -> None:
    """One without its like would be left out of the loss, its derivative never written."""
    output, wanted = nn.Linear(4, 5), torch.tensor([1, 2, 3])
    with pytest.raises(AssertionError, match="an even number"):
        fused_linear_cross_entropy(torch.ones(3, 4), output, wanted, rdrop_alpha=1.0)


@pytest.mark.parametrize("rdrop_alpha", [0.0, 1.0])
def test_no_tokens_give_loss_zero(rdrop_alpha: float) -> None:
    output, hidden = nn.Linear(4, 5), torch.empty(0, 4, requires_grad=True)
    none = torch.empty(0, dtype=torch.int64)
    loss = fused_linear_cross_entropy(hidden, output, none, rdrop_alpha=rdrop_alpha)
    assert loss.item() == 0.0
    found = torch.autograd.grad(loss, [hidden, output.weight, output.bias])
    assert found[0].shape == (0, 4)
    assert not any(d.any() for d in found)
