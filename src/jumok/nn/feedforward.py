"""Position-wise feed-forward layers: project up, activate, project down (3.3).

Shapes: B batch, T positions, D model width, F d_ff.
"""

from typing import Literal

from torch import Tensor, nn

from jumok.config_io import check_choice
from jumok.nn.dropout import Dropout

Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]


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


class PositionwiseFeedForward(nn.Module):
    """FFN(x) = max(0, x W1 + b1) W2 + b2, equation (2), or with another activation.

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
    ) -> None:
        super().__init__()
        self.up = nn.Linear(d_model, d_ff, bias=bias)
        self.activation = get_activation(activation)
        self.dropout = Dropout(dropout)
        self.down = nn.Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        return self.down(self.dropout(self.activation(self.up(x))))  # type: ignore[no-any-return]


class GatedFeedForward(PositionwiseFeedForward):
    """(act(x W1) * x Wg) W2: a gated linear unit (Shazeer 2020)."""

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        activation: Activation = "gelu",
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(d_model, d_ff, activation=activation, dropout=dropout, bias=bias)
        self.gate = nn.Linear(d_model, d_ff, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        gated = self.activation(self.up(x)) * self.gate(x)  # (B, T, F)
        return self.down(self.dropout(gated))  # type: ignore[no-any-return]
