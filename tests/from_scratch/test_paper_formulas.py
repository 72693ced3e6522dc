"""The formulas of the paper, with q, k and v projected by one matrix [Wq Wk Wv]."""

import math

import torch

from jumok.nn import (
    AttentionMask,
    LayerConfig,
    MultiHeadAttention,
    PositionwiseFeedForward,
    ResidualNorm,
    sinusoids,
)
from tests.nn.strategies import noise
from tests.nn.tolerances import FLOAT64, close, randomized

N, D, HEADS = 6, 8, 2
D_K = D // HEADS


def test_2_positions() -> None:
    """sin(p / 10000^(i/d)) at even i, cos(p / 10000^((i - 1)/d)) at odd i."""
    table = sinusoids(N, D)
    for p in range(N):
        for i in range(D):
            even = i - i % 2
            angle = p / 10_000 ** (even / D)
            wanted = math.sin(angle) if i == even else math.cos(angle)
            assert abs(table[p, i].item() - wanted) < 1e-6


def test_3_1_one_matrix_for_q_k_and_v() -> None:
    """X W with W (d, 3 n_heads d_k) is three projections; then scale, mask, softmax, V, W_0."""
    attention = randomized(MultiHeadAttention(D, HEADS)).double()
    x = noise(1, N, D, dtype=torch.float64)
    three = (attention.query, attention.key, attention.value)
    fused = torch.cat([linear.weight for linear in three])
    bias = torch.cat([linear.bias for linear in three])
    assert fused.shape == (3 * D, D)
    real = torch.tensor([[True] * 4 + [False] * 2])
    filters = []
    q, k, v = (x @ fused.T + bias).split(D, -1)
    for head in range(HEADS):
        columns = slice(head * D_K, (head + 1) * D_K)
        score = q[..., columns] @ k[..., columns].mT / math.sqrt(D_K)
        assert score.shape == (1, N, N)
        score = score.masked_fill(~real[:, None], float("-inf"))  # -inf, so softmax gives 0
        filters.append(score.softmax(-1) @ v[..., columns])
        assert filters[-1].shape == (1, N, D_K)
    concatenated = torch.cat(filters, -1)
    assert concatenated.shape == (1, N, HEADS * D_K)
    output = attention.output(concatenated)
    assert output.shape == (1, N, D)
    assert close(attention(x, x, AttentionMask.from_padding(real)), output, FLOAT64)


def test_4_residual_and_5_layer_norm() -> None:
    """H(x) = x + F(x), then gamma (h - mean) / sqrt(var + eps) + beta, from gamma 1 and beta 0."""
    around = ResidualNorm(LayerConfig(d_model=D, n_heads=HEADS)).double().eval()
    assert torch.equal(around.norm.weight, torch.ones(D))
    assert torch.equal(around.norm.bias, torch.zeros(D))
    randomized(around)
    x = noise(2, N, D, dtype=torch.float64)
    h = x + x.square()
    normed = (h - h.mean(-1, keepdim=True)) / (h.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    wanted = normed * around.norm.weight + around.norm.bias
    assert close(around(x, torch.square), wanted, FLOAT64)


def test_6_feed_forward() -> None:
    """max(0, x W1 + b1) W2 + b2, with the paper's d_ff = 2048 by default."""
    feed_forward = randomized(PositionwiseFeedForward(D, 20)).double()
    x = noise(1, N, D, dtype=torch.float64)
    w1, b1 = feed_forward.up.weight, feed_forward.up.bias
    w2, b2 = feed_forward.down.weight, feed_forward.down.bias
    wanted = (x @ w1.T + b1).clamp(min=0) @ w2.T + b2
    assert close(feed_forward(x), wanted, FLOAT64)
    assert LayerConfig().d_ff == 2048


def test_the_lower_triangle_is_the_causal_mask() -> None:
    """Multiplying scores by the triangle would leave the future at e^0."""
    table = AttentionMask(causal=True).dense(N, N, torch.device("cpu"))
    assert table is not None
    assert torch.equal(table, torch.ones(N, N).tril().bool())
    attention = randomized(MultiHeadAttention(D, HEADS))
    x = noise(1, N, D)
    changed = x.clone()
    changed[:, -1] += 1
    mask = AttentionMask(causal=True)
    assert torch.equal(attention(x, x, mask)[:, :-1], attention(changed, changed, mask)[:, :-1])
