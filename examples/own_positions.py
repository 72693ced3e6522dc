"""A position encoding of your own, in one file: ALiBi, a penalty for distance instead of a table.

    python examples/own_positions.py runs/alibi

The score of a key at distance d gets -d / 2^(8h / H) in head h of H (Press, Smith and Lewis 2022,
"Train Short, Test Long", section 3; their slopes for a power of two of heads). A distribution
registers its encoding with an entry point instead:

    [project.entry-points."jumok.positions"]
    alibi = "own_positions:Alibi"
"""

import sys

import torch
from torch import Tensor, nn

import jumok
from jumok.nn.config import LayerConfig
from jumok.nn.positions import PositionEncoding
from jumok.registry import register


class AlibiBias(nn.Module):
    """-distance * slope, a slope for each head."""

    slopes: Tensor

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        heads = torch.arange(1.0, n_heads + 1, device="cpu")  # not that of a model without memory
        slopes = 2.0 ** (-8.0 * heads / n_heads)  # (H,)
        self.register_buffer("slopes", slopes, persistent=False)

    def forward(self, T: int, S: int) -> Tensor:
        """The bias of the newest T of S positions towards all S: (1, H, T, S)."""
        positions = torch.arange(S, device=self.slopes.device)
        distance = (positions[S - T :, None] - positions).abs()  # (T, S)
        return (-distance * self.slopes[:, None, None])[None]


@register("jumok.positions", "alibi")
class Alibi(PositionEncoding):
    """The same bias in all layers, before and after a query in an encoder."""

    def bias(self, config: LayerConfig, *, bidirectional: bool) -> nn.Module:
        return AlibiBias(config.n_heads)


if __name__ == "__main__":
    run = jumok.train("numbers", model__positions="alibi", training__steps=200, out=sys.argv[1])
    print(run.results)
