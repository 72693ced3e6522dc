"""Position-wise feed-forward layers: project up, activate, project down (3.3).

Shapes: B batch, T positions, D model width, F d_ff. The names of activations and projections are in
config.py, which needs no torch.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from jumok.config_io import check_choice
from jumok.nn.config import (
    Activation,
    Projection,
)
from jumok.nn.dropout import Dropout


def get_activation(name: Activation) -> nn.Module:
    """The activation module: ReLU as in the paper, GELU as in BERT (tanh in GPT-2), SiLU."""
    check_choice("activation", name, Activation)
    match name:
        case "relu":
            return nn.ReLU()
        case "gelu":
            return nn.GELU()
        case "gelu_tanh":
            return nn.GELU(approximate="tanh")
        case "silu":
            return nn.SiLU()


class PointwiseConv(nn.Linear):
    """A linear map of each position, computed as a convolution with kernel size 1 (3.3).

    The weight is (out, in) as in nn.Linear, so checkpoints have the same form; nn.Conv1d has the
    same numbers as (out, in, 1).

    >>> import torch
    >>> conv, x = PointwiseConv(4, 3), torch.rand(1, 5, 4)
    >>> torch.allclose(conv(x), F.linear(x, conv.weight, conv.bias), atol=1e-6)
    True
    """

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, in) -> (B, T, out)."""
        y = F.conv1d(x.mT, self.weight[..., None], self.bias)  # (B, out, T)
        return y.mT


def make_projection(
    kind: Projection, in_features: int, out_features: int, *, bias: bool
) -> nn.Linear:
    """One of the maps W1, W2 of equation (2), computed as `kind`."""
    check_choice("projection", kind, Projection)
    linear = nn.Linear if kind == "linear" else PointwiseConv
    return linear(in_features, out_features, bias=bias)


class PositionwiseFeedForward(nn.Module):
    """FFN(x) = max(0, x W1 + b1) W2 + b2, equation (2), or with another activation.

    With `projection="conv1d"` W1 and W2 are two convolutions with kernel size 1, "another way of
    describing this" (3.3): the same weights give the same output.

    >>> import torch
    >>> tuple(PositionwiseFeedForward(8, 32)(torch.zeros(1, 3, 8)).shape)
    (1, 3, 8)
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        activation: Activation = "relu",
        dropout: float = 0.0,
        bias: bool = True,
        projection: Projection = "linear",
    ) -> None:
        super().__init__()
        self.up = make_projection(projection, d_model, d_ff, bias=bias)
        self.activation = get_activation(activation)
        self.dropout = Dropout(dropout)
        self.down = make_projection(projection, d_ff, d_model, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        return self.down(self.dropout(self.activation(self.up(x))))  # type: ignore[no-any-return]


class GatedFeedForward(PositionwiseFeedForward):
    """(act(x W1) * x Wg) W2: a gated linear unit (Shazeer 2020).

    >>> import torch
    >>> GatedFeedForward(d_model=8, d_ff=16)(torch.zeros(1, 3, 8)).shape  # (B, T, D)
    torch.Size([1, 3, 8])
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        activation: Activation = "gelu",
        dropout: float = 0.0,
        bias: bool = True,
        projection: Projection = "linear",
    ) -> None:
        super().__init__(
            *(d_model, d_ff),
            activation=activation,
            dropout=dropout,
            bias=bias,
            projection=projection,
        )
        self.gate = make_projection(projection, d_model, d_ff, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        gated = self.activation(self.up(x)) * self.gate(x)  # (B, T, F)
        return self.down(self.dropout(gated))  # type: ignore[no-any-return]
