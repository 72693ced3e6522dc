"""A from-scratch Transformer: heads by einops, layers, learned positions, attention maps."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from jumok.models import Encoder, EncoderDecoder, TransformerConfig
from jumok.nn import (
    AttentionMask,
    MultiHeadAttention,
    PositionwiseFeedForward,
    attention_weights,
    record,
)
from tests.nn.strategies import noise, tokens
from tests.nn.tolerances import close, randomized

einops = pytest.importorskip("einops")
SMALL = TransformerConfig(vocabulary_size=20, d_model=8, n_heads=2, d_ff=16, n_layers=3)


def test_1_1_einops() -> None:
    assert einops.rearrange(noise(2, 3, 4), "a b c -> c a b").shape == (4, 2, 3)
    assert einops.rearrange(noise(2, 3, 4), "a b c -> (a b) c").shape == (6, 4)
    assert einops.rearrange(noise(6, 4), "(a b) c -> a b c", a=2, b=3).shape == (2, 3, 4)


def test_2_heads_are_split_as_by_einops() -> None:
    """(32, 128, 512) with 8 heads becomes (32, 8, 128, 64), and comes back."""
    assert MultiHeadAttention(512, 8).split(torch.empty(32, 128, 512)).shape == (32, 8, 128, 64)
    attention, x = MultiHeadAttention(12, 3), noise(2, 5, 12)
    heads = attention.split(x)
    assert torch.equal(heads, einops.rearrange(x, "N t (h dk) -> N h t dk", h=3))
    assert torch.equal(einops.rearrange(heads, "N h t dk -> N t (h dk)"), x)


def test_2_multi_head_attention() -> None:
    """Its forward pass, with its convention that True hides."""
    ours = randomized(MultiHeadAttention(12, 3))
    x, source = noise(2, 4, 12), noise(2, 6, 12, seed=1)
    hidden = (torch.arange(6) >= torch.tensor([6, 4])[:, None])[:, None, None].expand(2, 3, 4, 6)

    def heads(x: Tensor) -> Tensor:
        y = einops.rearrange(x, "N t (h dk) -> N h t dk", h=3)
        assert isinstance(y, Tensor)
        return y

    q, k, v = heads(ours.query(x)), heads(ours.key(source)), heads(ours.value(source))
    score = q @ k.transpose(-2, -1) / (12 / 3) ** 0.5
    score[hidden] = -1e10
    energy = torch.softmax(score, dim=-1)
    wanted = ours.output(einops.rearrange(energy @ v, "N h t dk -> N t (h dk)"))
    with record(ours) as seen:
        output = ours(x, source, AttentionMask(~hidden))
    assert close(output, wanted)
    assert close(seen[""][0], energy)


def test_3_feed_forward_has_the_papers_dimensions() -> None:
    feed_forward = PositionwiseFeedForward(512, 2048, dropout=0.1)
    assert feed_forward(torch.zeros(1, 2, 512)).shape == (1, 2, 512)
    assert feed_forward.up.weight.shape == (2048, 512)
    assert feed_forward.dropout.p == 0.1


def test_4_encoder_with_learned_positions() -> None:
    """sqrt(d_model) * embedding + position, then the layers in sequence."""
    config = replace(SMALL, positions="learned", max_length=10)
    encoder = randomized(Encoder(config)).eval()
    ids = tokens(2, 6, size=20)
    tables = encoder.embedding
    assert tables.positions is not None
    places = torch.arange(6).repeat(2, 1)
    x = 8**0.5 * tables.tokens.weight[ids] + tables.positions(places)
    assert close(tables(ids, places), x)
    for layer in encoder.stack.layers:
        x = layer(x, AttentionMask())
    assert close(encoder(ids), x)
    assert tables.positions.weight.requires_grad


def test_4_attention_maps_are_recorded() -> None:
    """One map per layer and text."""
    model = randomized(EncoderDecoder(SMALL)).eval()
    with record(model) as seen:
        model(tokens(2, 6, size=20), tokens(2, 4, size=20))
    first = torch.stack([seen[f"encoder.stack.layers.{i}.self_attention"][0][0] for i in range(3)])
    assert first.shape == (3, 2, 6, 6)
    own = torch.stack([seen[f"decoder.stack.layers.{i}.self_attention"][0][0] for i in range(3)])
    assert own.shape == (3, 2, 4, 4)
    cross = torch.stack([seen[f"decoder.stack.layers.{i}.cross_attention"][0][0] for i in range(3)])
    assert cross.shape == (3, 2, 4, 6)


def test_5_the_masking_experiment() -> None:
    """Ten positions, three of them padding, eight heads: (3, 1, 1, 10) masks (3, 8, 10, 10)."""
    padding = torch.tensor([[0, 0, 0, 0, 0, 0, 0, 1, 1, 1]] * 3, dtype=torch.bool)
    mask = AttentionMask.from_padding(~padding)
    assert mask.allowed is not None
    assert mask.allowed.shape == (3, 1, 1, 10)
    q, k = noise(3, 8, 10, 4), noise(3, 8, 10, 4, seed=1)
    weights = attention_weights(q, k, mask, None, 0.5)
    assert weights.shape == (3, 8, 10, 10)
    assert not weights[..., 7:].any()
    assert close(weights[..., :7], attention_weights(q, k[:, :, :7], AttentionMask(), None, 0.5))
