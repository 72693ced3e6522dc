"""Explicit attention, fused attention and equation (1) in numpy agree for every mask."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from jumok.nn import (
    NO_MASK,
    AttentionMask,
    MultiHeadAttention,
    attention_weights,
    fused_attention,
    record,
)
from jumok.nn.attention_kernels import MAX_BMM_KEYS
from tests.combinations import pairwise
from tests.nn.strategies import masks, noise, random_mask, seeds
from tests.nn.tolerances import BFLOAT16, FLOAT32, FLOAT64, close, gradients, randomized

KERNEL = MAX_BMM_KEYS + 3  # so many keys use the kernel that never stores the weights
SCALE = 0.3  # not 1/sqrt(4), the default of the kernels


def by_the_book(
    q: Tensor, k: Tensor, v: Tensor, table: Tensor, bias: Tensor, scale: float
) -> Tensor:
    """Equation (1) in numpy, one query at a time."""
    y = np.zeros(q.shape)
    for b, h, t in np.ndindex(*q.shape[:3]):
        seen = table[b, h, t].numpy()
        if seen.any():
            scores = (k[b, h].numpy() @ q[b, h, t].numpy()) * scale + bias[b, h, t].numpy()
            weights = np.exp(scores[seen] - scores[seen].max())
            y[b, h, t] = weights / weights.sum() @ v[b, h].numpy()[seen]
    return torch.from_numpy(y)


def written_out(
    q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, bias: Tensor | None, scale: float
) -> Tensor:
    return attention_weights(q, k, mask, bias, scale).to(v.dtype) @ v


def table_of(mask: AttentionMask, B: int, H: int, T: int, S: int) -> Tensor:
    return mask.dense(T, S).expand(B, H, T, S)


@settings(max_examples=100)
@given(st.data())
def test_all_three_implementations_agree(data: st.DataObject) -> None:
    B, H, T = (data.draw(st.integers(1, n)) for n in (3, 3, 6))
    S = data.draw(st.sampled_from([T, T + 2, KERNEL]))
    mask = data.draw(masks(B, H, T, S))
    seed = data.draw(seeds)
    q = noise(B, H, T, 4, seed=seed, dtype=torch.float64)
    k, v = (noise(B, H, S, 4, seed=seed + i, dtype=torch.float64) for i in (1, 2))
    bias = (
        noise(1, H, T, S, seed=seed + 3, dtype=torch.float64) if data.draw(st.booleans()) else None
    )
    no_bias = torch.zeros(B, H, T, S, dtype=torch.float64)
    book = by_the_book(
        q, k, v, table_of(mask, B, H, T, S), no_bias if bias is None else no_bias + bias, SCALE
    )
    assert close(written_out(q, k, v, mask, bias, SCALE), book, FLOAT64)
    assert close(fused_attention(q, k, v, mask, bias, SCALE, 0.0), book, FLOAT64)


SIZES = [(4, 7), (4, KERNEL), (1, KERNEL), (KERNEL, KERNEL)]
TOLERANCE = {torch.float64: FLOAT64, torch.float32: FLOAT32, torch.bfloat16: BFLOAT16}


@pytest.mark.parametrize(
    ("size", "biased", "kind", "causal", "dtype"),
    pairwise(SIZES, [False, True], ["none", "padding", "full"], [False, True], TOLERANCE),
)
def test_values_and_gradients_agree(
    size: tuple[int, int], biased: bool, kind: str, causal: bool, dtype: torch.dtype
) -> None:
    """Including a query without keys: zeros forward, zeros backward."""
    B, H, K = 2, 2, 4
    T, S = size
    allowed = {
        "none": None,
        "padding": torch.arange(S)[None, None, None]
        < torch.tensor([S, S - 2])[:, None, None, None],
        "full": random_mask(B, 1, T, S, p=0.6).index_fill(2, torch.tensor([T - 1]), False),
    }[kind]
    mask = AttentionMask(allowed, causal)
    results = []
    for path in (written_out, lambda *a: fused_attention(*a, 0.0)):
        q = noise(B, H, T, K, seed=1, dtype=dtype).requires_grad_()
        k = noise(B, H, S, K, seed=2, dtype=dtype).requires_grad_()
        v = noise(B, H, S, K, seed=3, dtype=dtype).requires_grad_()
        bias = noise(1, H, T, S, seed=4, dtype=dtype).requires_grad_() if biased else None
        y = path(q, k, v, mask, bias, SCALE)
        y.backward(noise(B, H, T, K, seed=5, dtype=dtype))
        inputs = [q, k, v] if bias is None else [q, k, v, bias]
        results.append([y.detach(), *(x.grad for x in inputs if x.grad is not None)])
        assert len(results[-1]) == 1 + len(inputs)
    for slow, fast in zip(*results, strict=True):
        assert slow.isfinite().all()
        assert close(fast, slow, TOLERANCE[dtype])
    if kind == "full":
        assert not results[1][0][:, :, -1].any()


@pytest.mark.parametrize("S", [5, KERNEL])
def test_a_fully_masked_row_is_zero_with_finite_gradients(S: int) -> None:
    attention = randomized(MultiHeadAttention(8, 2))
    nothing = AttentionMask(torch.zeros(1, 1, 1, S, dtype=torch.bool))
    for watch in (False, True):
        attention.zero_grad()
        x, source = noise(2, 3, 8).requires_grad_(), noise(2, S, 8, seed=1).requires_grad_()
        if watch:
            with record(attention):
                y = attention(x, source, nothing)
        else:
            y = attention(x, source, nothing)
        y.sum().backward()
        assert torch.equal(y, attention.output.bias.expand_as(y))  # the heads returned zeros
        assert x.grad is not None
        assert source.grad is not None
        assert not x.grad.any()
        assert not source.grad.any()
        assert all(g.isfinite().all() for g in gradients(attention).values())


@pytest.mark.parametrize("S", [5, MAX_BMM_KEYS + 1])
def test_a_query_of_scores_of_minus_infinity_gets_zeros_alone_and_beside_padding(S: int) -> None:
    """Padding adds keys to a row, and they got all the weight."""
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 2, 3, 4), torch.randn(1, 2, S, 4), torch.randn(1, 2, S, 4)
    bias = torch.zeros(1, 2, 3, S)
    bias[:, 1, 2] = -torch.inf
    alone = fused_attention(q, k, v, NO_MASK, bias, 0.5, 0.0)
    assert (alone[0, 1, 2] == 0).all()
    assert (attention_weights(q, k, bias=bias)[0, 1, 2] == 0).all()
    more = [torch.nn.functional.pad(x, (0, 0, 0, 2), value=3.0) for x in (k, v)]
    padded = torch.nn.functional.pad(bias, (0, 2))
    mask = AttentionMask.from_padding(torch.arange(S + 2)[None] < S)
    close(fused_attention(q, *more, mask, padded, 0.5, 0.0), alone, FLOAT32)


def test_half_precision_is_summed_in_float32() -> None:
    q, k = noise(1, 1, 2, 4, dtype=torch.bfloat16), noise(1, 1, 3, 4, dtype=torch.bfloat16)
    assert attention_weights(q, k, NO_MASK, None, 1.0).dtype == torch.float32
    assert attention_weights(q.double(), k.double(), NO_MASK, None, 1.0).dtype == torch.float64


def test_the_scale_is_one_over_the_root_of_a_heads_width() -> None:
    assert MultiHeadAttention(512, 8).scale == 1 / 8
    assert MultiHeadAttention(512, 8, d_head=16).scale == 1 / 4
    assert MultiHeadAttention(512, 8, scale=1.0).scale == 1.0  # T5


@pytest.mark.parametrize("d_head", [None, 1, 5])
def test_any_head_width(d_head: int | None) -> None:
    attention = MultiHeadAttention(8, 2, d_head=d_head, bias=False)
    assert attention(noise(2, 3, 8), noise(2, 4, 8)).shape == (2, 3, 8)
    assert attention.query.weight.shape == (2 * (d_head or 4), 8)
    assert attention.output.weight.shape == (8, 2 * (d_head or 4))
    assert attention.query.bias is None


@pytest.mark.parametrize("watch", [False, True])
@pytest.mark.parametrize("S", [4, KERNEL])
def test_gradcheck(S: int, watch: bool) -> None:
    attention = randomized(MultiHeadAttention(4, 2)).double()
    mask = AttentionMask(random_mask(1, 1, 3, S, p=0.7).index_fill(2, torch.tensor([1]), False))
    bias = noise(1, 2, 3, S, seed=2, dtype=torch.float64).requires_grad_()
    x = noise(1, 3, 4, dtype=torch.float64).requires_grad_()
    source = noise(1, S, 4, seed=1, dtype=torch.float64).requires_grad_()

    def result(x: Tensor, source: Tensor, bias: Tensor, *parameters: Tensor) -> Tensor:
        if not watch:
            return attention(x, source, mask, bias)
        with record(attention):
            return attention(x, source, mask, bias)

    fast = S > 4  # checking every number of a long row would take a minute
    inputs = (x, source, bias, *attention.parameters())
    assert torch.autograd.gradcheck(result, inputs, fast_mode=fast)


def test_dropout_is_the_same_fused_and_explicit() -> None:
    attention = randomized(MultiHeadAttention(8, 2, dropout=0.4)).train()
    x = noise(2, 5, 8)
    results = []
    for watch in (False, True):
        attention.zero_grad()
        torch.manual_seed(7)
        if watch:
            with record(attention) as seen:
                y = attention(x, x, AttentionMask(causal=True))
            assert close(seen[""][0].sum(-1), torch.ones(2, 2, 5))  # recorded before dropout
        else:
            y = attention(x, x, AttentionMask(causal=True))
        y.square().sum().backward()
        results.append([y.detach(), *gradients(attention).values()])
    for fast, slow in zip(*results, strict=True):
        assert close(fast, slow)
    assert not torch.allclose(results[0][0], attention.eval()(x, x, AttentionMask(causal=True)))


@pytest.mark.parametrize("S", [6, KERNEL])
def test_dropout_keeps_the_mean_and_its_mask(S: int) -> None:
    n, p = 4000, 0.25
    q, k = noise(1, 1, 2, 4).expand(n, 1, 2, 4), noise(1, 1, S, 4, seed=1).expand(n, 1, S, 4)
    v = noise(1, 1, S, 4, seed=2).expand(n, 1, S, 4).clone().requires_grad_()
    torch.manual_seed(0)
    y = fused_attention(q, k, v, NO_MASK, None, 0.5, p)
    still = fused_attention(q[:1], k[:1], v[:1], NO_MASK, None, 0.5, 0.0)[0].detach()
    spread = y.detach().std(0) / math.sqrt(n)
    assert ((y.detach().mean(0) - still).abs() <= 5 * spread).all()
    assert (spread > 0).all()
    y.sum().backward()  # y is linear in v, so <gradient, v> = sum(y) if both used one mask
    assert v.grad is not None
    assert close((v.grad * v).sum(), y.sum(), 1e-4)


@given(heads=st.permutations([0, 1, 2]), seed=seeds)
def test_the_order_of_heads_does_not_matter(heads: list[int], seed: int) -> None:
    attention = randomized(MultiHeadAttention(6, 3), seed).double()
    other = MultiHeadAttention(6, 3).double()
    rows = torch.tensor([2 * h + i for h in heads for i in range(2)])
    with torch.no_grad():
        for name in ("query", "key", "value"):
            actual, reference = getattr(attention, name), getattr(other, name)
            reference.weight.copy_(actual.weight[rows])
            reference.bias.copy_(actual.bias[rows])
        other.output.weight.copy_(attention.output.weight[:, rows])
        other.output.bias.copy_(attention.output.bias)
    x = noise(2, 4, 6, seed=seed, dtype=torch.float64)
    assert close(other(x, x), attention(x, x), FLOAT64)


def test_eval_mode_has_no_dropout() -> None:
    x = noise(2, 5, 8)
    attention = randomized(MultiHeadAttention(8, 2, dropout=0.9)).eval()
    assert torch.equal(attention(x, x), attention(x, x))
