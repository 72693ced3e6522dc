"""Our layers and stacks against torch's, with the same weights: values and gradients."""

from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

from jumok.nn import (
    AttentionMask,
    LayerConfig,
    MultiHeadAttention,
    TransformerLayer,
    TransformerStack,
)
from tests.nn.strategies import noise, sequence_mask
from tests.nn.tolerances import FLOAT32, FLOAT64, close, randomized

TOLERANCE = {torch.float64: FLOAT64, torch.float32: FLOAT32}
REAL = sequence_mask([5, 3], 5)
SOURCE = sequence_mask([4, 2], 4)
TRIANGLE = torch.ones(5, 5, dtype=torch.bool).triu(1)  # torch's: True hides

both_orders = pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])
both_activations = pytest.mark.parametrize("activation", ["relu", "gelu"])
both_types = pytest.mark.parametrize("dtype", TOLERANCE)


def same(ours: nn.Module, theirs: nn.Module) -> None:
    ours.load_state_dict(theirs.state_dict())


def same_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    weights, biases = theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3)
    for linear, weight, bias in zip(
        (ours.query, ours.key, ours.value), weights, biases, strict=True
    ):
        linear.load_state_dict({"weight": weight, "bias": bias})
    same(ours.output, theirs.out_proj)


def same_layer(
    ours: TransformerLayer, theirs: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer
) -> None:
    same_attention(ours.self_attention, theirs.self_attn)
    same(ours.self_attention_norm.norm, theirs.norm1)
    same(ours.feed_forward.up, theirs.linear1)
    same(ours.feed_forward.down, theirs.linear2)
    if isinstance(theirs, nn.TransformerDecoderLayer):
        assert ours.cross_attention is not None
        assert ours.cross_attention_norm is not None
        same_attention(ours.cross_attention, theirs.multihead_attn)
        same(ours.cross_attention_norm.norm, theirs.norm2)
        same(ours.feed_forward_norm.norm, theirs.norm3)
    else:
        same(ours.feed_forward_norm.norm, theirs.norm2)


def config(norm_first: bool, activation: Literal["relu", "gelu"]) -> LayerConfig:
    return LayerConfig(d_model=8, n_heads=2, d_ff=12, norm_first=norm_first, activation=activation)


def settings(norm_first: bool, activation: str) -> dict[str, Any]:
    return {"dropout": 0.0, "activation": activation, "norm_first": norm_first, "batch_first": True}


def agree(ours: list[Tensor], theirs: list[Tensor], tolerance: float) -> None:
    """Outputs on real positions, then the gradients of inputs after a random backward."""
    y, *inputs = ours
    wanted, *wanted_inputs = theirs
    upward = noise(*y.shape, seed=9, dtype=y.dtype) * REAL[..., None]
    assert close(y[REAL], wanted[REAL], tolerance)
    y.backward(upward)
    wanted.backward(upward)
    for mine, yours in zip(inputs, wanted_inputs, strict=True):
        assert mine.grad is not None
        assert yours.grad is not None
        assert close(mine.grad, yours.grad, tolerance)


@both_types
@both_activations
@both_orders
def test_encoder_layer(
    norm_first: bool, activation: Literal["relu", "gelu"], dtype: torch.dtype
) -> None:
    theirs = nn.TransformerEncoderLayer(8, 2, 12, **settings(norm_first, activation))
    theirs = randomized(theirs).to(dtype).train()  # eval uses torch's inference-only kernel
    ours = TransformerLayer(config(norm_first, activation)).to(dtype).eval()
    same_layer(ours, theirs)
    x, x2 = (noise(2, 5, 8, dtype=dtype).requires_grad_() for _ in range(2))
    y = ours(x, AttentionMask.from_padding(REAL))
    wanted = theirs(x2, src_key_padding_mask=~REAL)
    agree([y, x], [wanted, x2], TOLERANCE[dtype])
    mine, yours = ours.feed_forward.up.weight.grad, theirs.linear1.weight.grad
    assert mine is not None
    assert yours is not None
    assert close(mine, yours, TOLERANCE[dtype])


@both_types
@both_activations
@both_orders
def test_decoder_layer(
    norm_first: bool, activation: Literal["relu", "gelu"], dtype: torch.dtype
) -> None:
    theirs = nn.TransformerDecoderLayer(8, 2, 12, **settings(norm_first, activation))
    theirs = randomized(theirs).to(dtype)
    ours = TransformerLayer(config(norm_first, activation), cross=True).to(dtype).eval()
    same_layer(ours, theirs)
    x, x2 = (noise(2, 5, 8, dtype=dtype).requires_grad_() for _ in range(2))
    m, m2 = (noise(2, 4, 8, seed=1, dtype=dtype).requires_grad_() for _ in range(2))
    y = ours(
        x, AttentionMask.from_padding(REAL, causal=True), m, AttentionMask.from_padding(SOURCE)
    )
    wanted = theirs(
        x2,
        m2,
        tgt_mask=TRIANGLE,
        tgt_key_padding_mask=~REAL,
        memory_key_padding_mask=~SOURCE,
    )
    agree([y, x, m], [wanted, x2, m2], TOLERANCE[dtype])


@both_types
@both_orders
def test_encoder_and_decoder_stacks(norm_first: bool, dtype: torch.dtype) -> None:
    """Three layers each, and the final norm of pre-norm stacks."""

    def norm() -> nn.LayerNorm | None:
        return nn.LayerNorm(8) if norm_first else None

    their_encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(8, 2, 12, **settings(norm_first, "relu")),
        3,
        norm(),
        enable_nested_tensor=False,
    )
    their_decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(8, 2, 12, **settings(norm_first, "relu")),
        3,
        norm(),
    )
    encoder = TransformerStack(config(norm_first, "relu"), 3).to(dtype).eval()
    decoder = TransformerStack(config(norm_first, "relu"), 3, cross=True).to(dtype).eval()
    for ours, theirs in ((encoder, their_encoder), (decoder, their_decoder)):
        randomized(theirs, seed=3).to(dtype)
        for mine, yours in zip(ours.layers, theirs.layers, strict=True):
            same_layer(mine, yours)
        if theirs.norm is not None:
            same(ours.norm, theirs.norm)
    x, x2 = (noise(2, 5, 8, dtype=dtype).requires_grad_() for _ in range(2))
    s, s2 = (noise(2, 4, 8, seed=1, dtype=dtype).requires_grad_() for _ in range(2))
    source = AttentionMask.from_padding(SOURCE)
    memory = encoder(s, torch.arange(4)[None], source)
    y = decoder(
        x, torch.arange(5)[None], AttentionMask.from_padding(REAL, causal=True), memory, source
    )
    wanted = their_decoder(
        x2,
        their_encoder(s2, src_key_padding_mask=~SOURCE),
        tgt_mask=TRIANGLE,
        tgt_key_padding_mask=~REAL,
        memory_key_padding_mask=~SOURCE,
    )
    agree([y, x, s], [wanted, x2, s2], TOLERANCE[dtype])
