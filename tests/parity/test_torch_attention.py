"""Our attention against torch's: nn.MultiheadAttention and scaled_dot_product_attention."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jumok.nn import AttentionMask, MultiHeadAttention, attention_weights, fused_attention, record
from jumok.nn.attention_kernels import MAX_BMM_KEYS
from tests.nn.strategies import noise, random_mask, sequence_mask
from tests.nn.tolerances import FLOAT32, FLOAT64, close, randomized

TOLERANCE = {torch.float64: FLOAT64, torch.float32: FLOAT32}


def with_weights_of(reference: nn.MultiheadAttention) -> MultiHeadAttention:
    """Torch stacks the three input projections in one weight."""
    actual = MultiHeadAttention(reference.embed_dim, reference.num_heads).to(
        reference.in_proj_weight.dtype
    )
    weights, biases = reference.in_proj_weight.chunk(3), reference.in_proj_bias.chunk(3)
    with torch.no_grad():
        for linear, weight, bias in zip(
            (actual.query, actual.key, actual.value), weights, biases, strict=True
        ):
            linear.weight.copy_(weight)
            linear.bias.copy_(bias)
    actual.output.load_state_dict(reference.out_proj.state_dict())
    return actual


def torch_tables(kind: str, T: int, S: int) -> tuple[AttentionMask, dict[str, Tensor]]:
    """The same mask in our convention and in torch's, where True hides; no row is fully masked."""
    real = sequence_mask([S, S - 2], S)
    table = random_mask(T, S, p=0.6).index_fill(1, torch.tensor([0]), True)
    causal = torch.ones(T, S, dtype=torch.bool).tril()
    return {
        "none": (AttentionMask(), {}),
        "padding": (AttentionMask.from_padding(real), {"key_padding_mask": ~real}),
        "table": (AttentionMask(table[None, None]), {"attn_mask": ~table}),
        "causal": (AttentionMask(causal=True), {"attn_mask": ~causal}),
        "causal and padding": (
            AttentionMask.from_padding(real, causal=True),
            {"attn_mask": ~causal, "key_padding_mask": ~real},
        ),
    }[kind]


KINDS = ["none", "padding", "table", "causal", "causal and padding"]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("watch", [False, True])
@pytest.mark.parametrize(
    ("own", "kind"),  # cross-attention has no causal mask
    [(own, kind) for own in (True, False) for kind in KINDS if own or "causal" not in kind],
)
def test_multi_head_attention(own: bool, kind: str, watch: bool, dtype: torch.dtype) -> None:
    """Outputs, weights and every gradient."""
    T, S = (6, 6) if own else (4, 6)
    reference = randomized(nn.MultiheadAttention(8, 2, batch_first=True)).to(dtype)
    actual = with_weights_of(reference)
    mask, theirs_mask = torch_tables(kind, T, S)
    upward = noise(2, T, 8, seed=2, dtype=dtype)

    x = noise(2, T, 8, dtype=dtype).requires_grad_()
    source = x if own else noise(2, S, 8, seed=1, dtype=dtype).requires_grad_()
    expected, weights = reference(x, source, source, average_attn_weights=False, **theirs_mask)
    expected.backward(upward)
    wanted_gradients = [x.grad, source.grad]

    x.grad = source.grad = None
    if watch:
        with record(actual) as seen:
            y = actual(x, source, mask)
        assert close(seen[""][0], weights, TOLERANCE[dtype])
    else:
        y = actual(x, source, mask)
    y.backward(upward)
    assert close(y, expected, TOLERANCE[dtype])
    for gradient, wanted_gradient in zip((x.grad, source.grad), wanted_gradients, strict=True):
        assert gradient is not None
        assert wanted_gradient is not None
        assert close(gradient, wanted_gradient, TOLERANCE[dtype])
    for kind_of in ("weight", "bias"):
        stacked = torch.cat(
            [getattr(linear, kind_of).grad for linear in (actual.query, actual.key, actual.value)]
        )
        assert close(stacked, getattr(reference, f"in_proj_{kind_of}").grad, TOLERANCE[dtype])
        mine, yours = (
            getattr(actual.output, kind_of).grad,
            getattr(reference.out_proj, kind_of).grad,
        )
        assert close(mine, yours, TOLERANCE[dtype])


@pytest.mark.parametrize("S", [6, MAX_BMM_KEYS + 1], ids=["short", "kernel"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_scaled_dot_product_attention(dtype: torch.dtype, kind: str, S: int) -> None:
    q, k, v = (noise(2, 3, S, 4, seed=i, dtype=dtype) for i in range(3))
    mask, reference = torch_tables(kind, S, S)
    hidden = torch.zeros(2, 1, S, S, dtype=torch.bool)
    if "attn_mask" in reference:
        hidden = hidden | reference["attn_mask"]
    if "key_padding_mask" in reference:
        hidden = hidden | reference["key_padding_mask"][:, None, None]
    expected = F.scaled_dot_product_attention(q, k, v, ~hidden)
    assert close(fused_attention(q, k, v, mask, None, 0.5, 0.0), expected, TOLERANCE[dtype])
    assert close(attention_weights(q, k, mask, None, 0.5) @ v, expected, TOLERANCE[dtype])


@pytest.mark.parametrize("S", [6, MAX_BMM_KEYS + 1], ids=["short", "kernel"])
def test_scaled_dot_product_attention_with_a_bias(S: int) -> None:
    q, k, v = (noise(2, 3, S, 4, seed=i) for i in range(3))
    bias = noise(1, 3, S, S, seed=3)
    allowed = torch_tables("padding", S, S)[0]
    assert allowed.allowed is not None
    expected = F.scaled_dot_product_attention(
        q, k, v, bias.masked_fill(~allowed.allowed, float("-inf")), scale=1.0
    )
    assert close(fused_attention(q, k, v, allowed, bias, 1.0, 0.0), expected)
    assert close(attention_weights(q, k, allowed, bias, 1.0) @ v, expected)
