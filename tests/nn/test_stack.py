"""A stack: every layer runs, in order, with the configured kind of positions."""

import pytest
import torch
from torch import nn

from jumok.nn import AttentionMask, DecoderCache, LayerConfig, TransformerStack
from tests.nn.strategies import noise
from tests.nn.tolerances import FLOAT64, close, randomized

CONFIG = LayerConfig(d_model=8, n_heads=2, d_ff=12)
FIRST = LayerConfig(d_model=8, n_heads=2, d_ff=12, norm_first=True, norm="rms")
PLACES = torch.arange(5)[None]


@pytest.mark.parametrize("config", [CONFIG, FIRST])
def test_layers_run_in_order(config: LayerConfig) -> None:
    stack = randomized(TransformerStack(config, 3)).double().eval()
    x = by_hand = noise(2, 5, 8, dtype=torch.float64)
    mask = AttentionMask(causal=True)
    for layer in stack.layers:
        by_hand = layer(by_hand, mask)
    assert isinstance(stack.norm, nn.RMSNorm) == config.norm_first
    assert close(stack(x, PLACES, mask), stack.norm(by_hand), FLOAT64)


@pytest.mark.parametrize("inside", ["none", "rotary", "relative"])
def test_token_order_matters_only_with_positions(inside: str) -> None:
    stack = randomized(TransformerStack(CONFIG, 2, positions=inside)).double().eval()
    x = noise(1, 5, 8, dtype=torch.float64)
    turned_round = stack(x.flip(1), PLACES).flip(1)
    if inside == "none":
        assert close(turned_round, stack(x, PLACES), FLOAT64)
    else:
        assert not torch.allclose(turned_round, stack(x, PLACES), atol=1e-3)


@pytest.mark.parametrize("inside", ["rotary", "relative"])
def test_a_shift_of_all_positions_changes_nothing(inside: str) -> None:
    stack = randomized(TransformerStack(CONFIG, 2, positions=inside)).double().eval()
    x = noise(1, 5, 8, dtype=torch.float64)
    assert close(stack(x, PLACES + 77), stack(x, PLACES), 1e-5)  # angles are float32


def test_all_layers_share_one_relative_bias() -> None:
    stack = TransformerStack(CONFIG, 3, positions="relative")
    assert sum("relative" in name for name, _ in stack.named_parameters()) == 1


def test_a_cache_with_a_wrong_number_of_layers_is_rejected() -> None:
    with pytest.raises(ValueError, match="2 layers must have 2 caches, got 3; create one for each"):
        TransformerStack(CONFIG, 2)(noise(1, 5, 8), PLACES, cache=DecoderCache.with_capacity(3, 9))
