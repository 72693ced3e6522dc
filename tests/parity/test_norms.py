"""LayerNorm and RMSNorm against their formulas in numpy."""

from typing import Literal

import numpy as np
import pytest
import torch

from jumok.nn import LayerConfig, ResidualNorm
from tests.nn.strategies import noise
from tests.nn.tolerances import FLOAT64, close, randomized


@pytest.mark.parametrize("eps", [1e-12, 1e-5, 0.1])
@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_norms_are_their_formulas(kind: Literal["layer", "rms"], eps: float) -> None:
    config = LayerConfig(d_model=6, n_heads=1, norm=kind, norm_eps=eps)
    norm = randomized(ResidualNorm(config)).norm.double()
    x = noise(2, 3, 6, dtype=torch.float64) * 5 + 2
    rows = x.numpy()
    if kind == "layer":
        centred = rows - rows.mean(-1, keepdims=True)
        wanted = centred / np.sqrt(rows.var(-1, keepdims=True) + eps)
    else:
        wanted = rows / np.sqrt((rows**2).mean(-1, keepdims=True) + eps)
    wanted = wanted * norm.weight.detach().numpy()
    if kind == "layer":
        wanted = wanted + norm.bias.detach().numpy()
    assert close(norm(x), torch.from_numpy(wanted), FLOAT64)


def test_layer_norm_leaves_mean_0_and_variance_1() -> None:
    norm = ResidualNorm(LayerConfig(d_model=64, n_heads=1)).norm.double()
    y = norm(noise(4, 5, 64, dtype=torch.float64) * 30 - 7)
    assert close(y.mean(-1), torch.zeros(4, 5), FLOAT64)
    assert close(y.var(-1, correction=0), torch.ones(4, 5), 1e-6)  # eps = 1e-5 over 900
