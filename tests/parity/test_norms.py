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
        expected = centred / np.sqrt(rows.var(-1, keepdims=True) + eps)
    else:
        expected = rows / np.sqrt((rows**2).mean(-1, keepdims=True) + eps)
    expected = expected * norm.weight.detach().numpy()
    if kind == "layer":
        expected = expected + norm.bias.detach().numpy()
    assert close(norm(x), torch.from_numpy(expected), FLOAT64)
