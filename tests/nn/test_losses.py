"""The cross-entropy against numpy: smoothing, the sum over tokens, its gradient, float32 sums."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from jumok.nn.losses import cross_entropy, rdrop_kl


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_against_numpy(smoothing: float) -> None:
    rng = np.random.default_rng(0)
    logits, wanted = rng.normal(size=(50, 7)) * 5, rng.integers(0, 7, 50)
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    target = np.full((50, 7), smoothing / 7)
    target[np.arange(50), wanted] += 1 - smoothing
    x = torch.tensor(logits, dtype=torch.float32, requires_grad=True)
    loss = cross_entropy(x, torch.from_numpy(wanted), smoothing)
    assert loss.item() == pytest.approx(-(target * log_p).sum(), rel=1e-6)  # float32 sums
    loss.backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), np.exp(log_p) - target, atol=1e-6)


def test_bfloat16_logits_are_summed_in_float32() -> None:
    torch.manual_seed(0)
    logits = torch.randn(4096, 8).bfloat16()
    wanted = torch.randint(8, (4096,))
    loss = cross_entropy(logits, wanted)
    assert loss.dtype == torch.float32
    assert torch.equal(loss, cross_entropy(logits.float(), wanted))


def test_an_empty_batch_has_loss_zero() -> None:
    assert cross_entropy(torch.empty(0, 3), torch.empty(0, dtype=torch.int64)).item() == 0.0


def test_rdrop_kl_is_the_mean_of_both_divergences() -> None:
    torch.manual_seed(0)
    once, again = torch.randn(50, 7), torch.randn(50, 7)
    p, q = once.log_softmax(-1), again.log_softmax(-1)
    both = [F.kl_div(*pair, reduction="sum", log_target=True) for pair in ((q, p), (p, q))]
    wanted = sum(both) / 2
    torch.testing.assert_close(rdrop_kl(once, again), wanted, rtol=1e-5, atol=0)  # float32
