"""How a model is computed: convolutions, fused projections, positions from 1, the same weights."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from jumok.errors import InputError
from jumok.models import Encoder, EncoderDecoder, EncoderDecoderClassifier, TransformerConfig
from jumok.models.weights import load_weights, named_weights
from jumok.nn import LayerConfig, LearnedPositions, SinusoidalPositions, TransformerLayer, sinusoids
from jumok.nn.lora import LoraConfig, add_lora
from tests.models.small_models import VOCABULARY, small
from tests.nn.strategies import noise, tokens
from tests.nn.tolerances import FLOAT64, close, gradients, randomized

REAL = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
CHOICES: list[dict[str, Any]] = [
    {"ffn_projection": "conv1d"},
    {"ffn_projection": "conv1d", "gated": True, "bias": False},
    {"fused_qkv": True},
    {"fused_qkv": True, "n_kv_heads": 1, "qk_norm": True, "positions": "rotary"},
    {"fused_qkv": True, "attention_bias": "none", "d_head": 6},
    {"fused_qkv": True, "ffn_projection": "conv1d", "norm_first": True},
]
STILL = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}


def pair(kind: type[nn.Module], changes: dict[str, Any]) -> tuple[nn.Module, nn.Module]:
    """The usual model and one with `changes`, with the weights of the first: float64."""
    usual = {k: v for k, v in changes.items() if k not in ("ffn_projection", "fused_qkv")}
    first = randomized(kind(small(**STILL, **usual))).double()
    second = kind(small(**STILL, **changes)).double()
    load_weights(second, named_weights(first))
    return first, second


@pytest.mark.parametrize("changes", CHOICES, ids=str)
def test_the_same_weights_give_the_same_model(changes: dict[str, Any]) -> None:
    """Outputs and all gradients of an encoder-decoder, in training."""
    usual, other = pair(EncoderDecoder, changes)
    source, target = tokens(2, 5, size=VOCABULARY), tokens(2, 4, size=VOCABULARY)
    outputs = [model.train()(source, target, REAL) for model in (usual, other)]
    assert close(outputs[1], outputs[0], FLOAT64)
    for output in outputs:
        output.square().sum().backward()
    expected, found = gradients(usual), gradients(other)
    assert expected.keys() == found.keys()
    assert all(close(found[name], expected[name], FLOAT64) for name in expected)


@pytest.mark.parametrize("changes", CHOICES, ids=str)
def test_a_cache_gives_the_same_tokens(changes: dict[str, Any]) -> None:
    """Token by token with a cache, as in the usual model at once."""
    usual, other = pair(EncoderDecoder, changes)
    source, target = tokens(2, 5, size=VOCABULARY), tokens(2, 4, size=VOCABULARY)
    whole = usual.eval()(source, target)
    decoder = other.eval()
    memory, cache = decoder.encode(source), decoder.decoder.make_cache(4)
    steps = [decoder.decoder(target[:, t : t + 1], None, memory, cache=cache) for t in range(4)]
    assert close(decoder.output(torch.cat(steps, 1)), whole, FLOAT64)


def test_a_convolution_has_the_numbers_of_nn_conv1d() -> None:
    layer = randomized(
        TransformerLayer(LayerConfig(d_model=8, n_heads=2, d_ff=12, ffn_projection="conv1d"))
    )
    up = layer.feed_forward.up
    conv = nn.Conv1d(8, 12, kernel_size=1)
    conv.load_state_dict({"weight": up.weight[..., None], "bias": up.bias})
    x = noise(2, 5, 8)
    assert torch.equal(conv(x.transpose(1, 2)).transpose(1, 2), up(x))


def test_one_product_for_queries_keys_and_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Self-attention multiplies x once by all three; cross-attention projects q apart."""
    calls: list[int] = []
    linear = torch.nn.functional.linear

    def counted(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        calls.append(weight.shape[0])
        return linear(x, weight, bias)

    monkeypatch.setattr(torch.nn.functional, "linear", counted)
    layer = TransformerLayer(LayerConfig(d_model=8, n_heads=2, d_ff=12, fused_qkv=True))
    layer.self_attention(x := noise(1, 3, 8), x)
    assert calls == [24, 8]
    calls.clear()
    layer.self_attention(noise(1, 3, 8), noise(1, 4, 8))
    assert calls == [8, 8, 8, 8]


def test_lora_reaches_fused_and_convolved_maps() -> None:
    """With A and B the maps are computed one by one; gradients arrive at both."""
    model = Encoder(small(**STILL, fused_qkv=True, ffn_projection="conv1d"))
    targets = ("query", "value", "up", "down")
    names = add_lora(model, LoraConfig(rank=2, targets=targets))
    assert len(names) == 8
    randomized(model)(tokens(2, 5, size=VOCABULARY)).square().sum().backward()
    assert all(g.any() for name, g in gradients(model).items() if "lora" in name)


@pytest.mark.parametrize("positions", ["sinusoidal", "sinusoidal_halves", "learned"])
def test_positions_from_1_and_row_0_for_padding(positions: Any) -> None:
    """positions = arange + 1, 0 where the token is [PAD], as in the notes."""
    config = small(**STILL, positions=positions, position_offset=1)
    encoder = randomized(Encoder(config))
    ids = tokens(2, 5, size=VOCABULARY)
    table = encoder.embedding.positions
    assert isinstance(table, SinusoidalPositions | LearnedPositions)
    rows = table.weight if isinstance(table, LearnedPositions) else table.table
    assert len(rows) == config.max_length + 1
    counted = (torch.arange(5).expand(2, 5) + 1).masked_fill(~REAL, 0)
    seen: list[Tensor] = []
    encoder.stack.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    encoder(ids, REAL)
    assert torch.equal(seen[0], encoder.embedding.tokens(ids) + rows[counted])
    assert torch.equal(rows, sinusoids(33, 8)) == (positions == "sinusoidal")


def test_positions_from_1_continue_in_a_cache() -> None:
    model = randomized(EncoderDecoder(small(**STILL, position_offset=1))).eval()
    source, target = tokens(2, 5, size=VOCABULARY), tokens(2, 4, size=VOCABULARY)
    whole = model(source, target, REAL)
    memory, cache = model.encode(source, REAL), model.decoder.make_cache(4)
    steps = [model.decoder(target[:, t : t + 1], None, memory, REAL, cache=cache) for t in range(4)]
    assert close(model.output(torch.cat(steps, 1)), whole)
    assert not torch.allclose(model(source, target), model(source.roll(1, 1), target))


def test_all_of_them_in_the_classifier_of_the_notes() -> None:
    config = small(position_offset=1, ffn_projection="conv1d", fused_qkv=True)
    model = randomized(EncoderDecoderClassifier(config, 2)).eval()
    ids = tokens(2, 5, size=VOCABULARY)
    short = model(ids[1:, :3], torch.tensor([[2]]), REAL[1:, :3])
    assert close(model(ids, torch.tensor([[2], [2]]), REAL)[1:], short)  # padding changes nothing


@pytest.mark.parametrize("positions", ["rotary", "relative", "none"])
def test_an_offset_needs_a_table(positions: Any) -> None:
    message = f'position_offset must be 0 with positions="{positions}".*got 1; leave it out'
    with pytest.raises(InputError, match=message):
        TransformerConfig(positions=positions, position_offset=1)
