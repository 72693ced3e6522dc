"""Common mistakes in from-scratch Transformers: each reproduced, detected, and absent here."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from jumok.data.config import DataConfig
from jumok.data.corpora.registry import corpus_by_name
from jumok.data.load import load_splits
from jumok.data.splits import SEQUENCES
from jumok.data.table import Table
from jumok.models import Encoder, EncoderDecoder, TransformerConfig
from jumok.nn import (
    AttentionMask,
    LayerConfig,
    MultiHeadAttention,
    PositionwiseFeedForward,
    TransformerLayer,
    TransformerStack,
    attention_weights,
    positions_from_mask,
)
from tests.nn.strategies import noise, sequence_mask, tokens
from tests.nn.tolerances import close, gradients, randomized

SMALL = LayerConfig(d_model=8, n_heads=2, d_ff=12)
MODEL = TransformerConfig(vocabulary_size=11, d_model=8, n_heads=2, d_ff=12, n_layers=2)
PLACES = torch.arange(4)[None]


def test_return_inside_the_layer_loop() -> None:
    """Only the first layer runs."""
    stack, x = randomized(TransformerStack(SMALL, 3)).eval(), noise(2, 4, 8)

    def slipped(x: Tensor) -> Tensor:
        for layer in stack.layers:
            return layer(x, AttentionMask())
        return x

    def right(x: Tensor) -> Tensor:
        for layer in stack.layers:
            x = layer(x, AttentionMask())
        return x

    y = stack(x, PLACES)
    assert close(y, right(x))
    assert not torch.allclose(y, slipped(x), atol=0.1)
    (y * noise(2, 4, 8, seed=1)).sum().backward()
    for i in range(3):
        assert gradients(stack)[f"layers.{i}.feed_forward.up.weight"].any()
    stack.zero_grad()
    slipped(x).sum().backward()
    assert "layers.1.feed_forward.up.weight" not in gradients(stack)


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_cross_attention_residual_adds_the_self_attention_output(norm_first: bool) -> None:
    """Adding the layer's input after cross-attention loses the self-attention output."""
    config = LayerConfig(d_model=8, n_heads=2, d_ff=12, norm_first=norm_first)
    layer = randomized(TransformerLayer(config, cross=True)).eval()
    x, memory = noise(2, 4, 8), noise(2, 5, 8, seed=1)
    cross, around = layer.cross_attention, layer.cross_attention_norm
    assert cross is not None
    assert around is not None

    def decoder(kept: str) -> Tensor:
        own = layer.self_attention_norm(x, lambda x: layer.self_attention(x, x))
        residual = own if kept == "own" else x
        if norm_first:
            expected = residual + cross(around.norm(own), memory)
        else:
            expected = around.norm(residual + cross(own, memory))
        y = layer.feed_forward_norm(expected, layer.feed_forward)
        assert isinstance(y, Tensor)
        return y

    y = layer(x, AttentionMask(), memory)
    assert close(y, decoder("own"))
    assert not torch.allclose(y, decoder("input"), atol=0.1)


def test_masked_scores_are_not_0() -> None:
    """A score of 0 is e^0 = 1 in the softmax and masks nothing."""
    q, k = noise(1, 1, 4, 4), noise(1, 1, 4, 4, seed=1)
    mask = AttentionMask.from_padding(sequence_mask([2], 4))
    hidden = ~sequence_mask([2], 4)[:, None, None]
    slipped = (q @ k.mT).masked_fill(hidden, 0).softmax(-1)
    weights = attention_weights(q, k, mask, None, 1.0)
    assert close(weights, (q @ k.mT).masked_fill(hidden, float("-inf")).softmax(-1))
    assert not weights[..., 2:].any()
    assert slipped[..., 2:].min() > 0


def test_a_module_is_assigned_not_compared() -> None:
    """`self.linear == ...` compares with an attribute that does not exist."""

    class Slipped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear == nn.Linear(8, 12)  # noqa: B015

    with pytest.raises(AttributeError, match="linear"):
        Slipped()
    names = {name for name, _ in PositionwiseFeedForward(8, 12).named_parameters()}
    assert names == {"up.weight", "up.bias", "down.weight", "down.bias"}


def test_the_output_projection_is_the_registered_one() -> None:
    """Defined as `fc_o`, used as `fx_o`; every module of ours is used."""

    class Slipped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc_o = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            return self.fx_o(x)

    with pytest.raises(AttributeError, match="fx_o"):
        Slipped()(noise(1, 2, 8))
    attention, x = randomized(MultiHeadAttention(8, 2)), noise(1, 3, 8)
    attention(x, x).square().sum().backward()
    used = gradients(attention)
    assert set(used) == {name for name, _ in attention.named_parameters()}
    assert used["output.weight"].any()


def unregistered_tensors(model: nn.Module) -> list[str]:
    return [
        f"{location}.{name}"
        for location, module in model.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, Tensor)
    ]


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "relative"])
def test_all_tensors_move_with_the_model(positions: Any) -> None:
    """A `self.scale` tensor that is not a buffer stays on the CPU."""

    class Slipped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.sqrt(torch.tensor(512 / 8))

    assert unregistered_tensors(Slipped()) == [".scale"]
    assert Slipped().to("meta").scale.device.type == "cpu"
    config = replace(MODEL, positions=positions)
    model = EncoderDecoder(config)
    assert unregistered_tensors(model) == []
    ids = torch.ones(1, 3, dtype=torch.int64, device="meta")
    assert model.to("meta")(ids, ids).device.type == "meta"  # no CPU tensor takes part


def test_leaf_modules_take_numbers() -> None:
    """A module that reads `self.config`, which is never set."""

    class Slipped(nn.Module):
        def __init__(self, d_hidn: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv1d(self.config.d_hidn, self.config.d_hidn * 4, kernel_size=1)

    with pytest.raises(AttributeError, match="config"):
        Slipped(128)
    assert PositionwiseFeedForward(128, 512)(noise(1, 2, 128)).shape == (1, 2, 128)


def test_true_means_may_attend_everywhere() -> None:
    """A mask where True hides, passed to us unchanged, would attend only to padding."""
    attention, x = randomized(MultiHeadAttention(8, 2)), noise(1, 4, 8)
    hidden = ~sequence_mask([3], 4)[:, None, None]
    alone = attention(x[:, :3], x[:, :3])
    assert close(attention(x, x, AttentionMask(~hidden))[:, :3], alone)
    assert not torch.allclose(attention(x, x, AttentionMask(hidden))[:, :3], alone, atol=0.1)
    for mask in (  # every constructor
        AttentionMask.from_padding(sequence_mask([3], 4)),
        AttentionMask.from_segments(torch.tensor([[0, 0, 0, -1]])),
        AttentionMask(causal=True),
    ):
        table = mask.dense(4, 4, torch.device("cpu"))
        assert table is not None
        last = table.expand(1, 1, 4, 4)[0, 0, 2]
        assert last.tolist() == [True, True, True, False]


def test_positions_do_not_run_past_padding() -> None:
    """arange over the row counts padding: wrong with padding on the left."""
    encoder = randomized(Encoder(MODEL)).eval()
    text = tokens(1, 3, size=11)
    padded, real = (
        torch.cat([torch.zeros(1, 2, dtype=torch.int64), text], 1),
        sequence_mask([3], 5, left=True),
    )
    mask = AttentionMask.from_padding(real)
    alone = encoder(text)
    assert close(encoder(padded, mask, positions=positions_from_mask(real))[:, 2:], alone)
    assert not torch.allclose(encoder(padded, mask)[:, 2:], alone, atol=0.01)
    assert positions_from_mask(real).tolist() == [[0, 0, 0, 1, 2]]


def n_shared_rows(choosing: Table, scoring: Table) -> int:
    """The number of rows used both for choosing and for the reported score."""
    pairs = set(zip(scoring.column("source"), scoring.column("target"), strict=True))
    chosen = zip(choosing.column("source"), choosing.column("target"), strict=True)
    return sum(row in pairs for row in chosen)


def test_the_epoch_is_chosen_on_the_development_set(tmp_path: Path) -> None:
    """Choosing the epoch on the test set that is also reported."""
    for name, first in (("train", 0), ("test", 100)):
        lines = "".join(f"말 {i}\t글 {i}\n" for i in range(first, first + 50))
        (tmp_path / f"{name}.tsv").write_text(f"source\ttarget\n{lines}", encoding="utf-8")
    own = load_splits(
        DataConfig(train=str(tmp_path / "train.tsv"), test=str(tmp_path / "test.tsv")), SEQUENCES
    )
    assert len(own.dev) == 5  # split off the training rows
    assert n_shared_rows(own.dev, own.test) == 0
    assert n_shared_rows(own.train, own.dev) == 0
    assert n_shared_rows(own.test, own.test) == 50  # the mistake
    nsmc = corpus_by_name("nsmc").splits
    (train,), (dev,), (test,) = nsmc["train"], nsmc["dev"], nsmc["test"]
    assert dev.files == train.files != test.files
    assert dev.first == train.stop == 140_000
