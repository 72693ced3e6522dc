"""Linear maps for inference: weights packed once for oneDNN, with a fused activation.

Shapes: n rows, K inputs, N outputs.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from jumok.native.quantize import QuantizedLinear
from jumok.torch_ops import has_onednn, pack_linear, packed_linear

# Makes the replacement of a linear map, fused with the activation after it, if any.
LinearFactory = Callable[[nn.Linear, nn.Module | None], nn.Module]


class PackedLinear(nn.Module):
    """act(x W^T + b) with W in the memory layout of oneDNN, in float32 or bfloat16.

    A float32 product is computed in full float32 unless `torch.set_float32_matmul_precision` says
    otherwise. There are no gradients.

    >>> linear, x = nn.Linear(8, 4), torch.randn(2, 3, 8)
    >>> with torch.no_grad():
    ...     expected = nn.functional.gelu(linear(x))
    >>> torch.allclose(PackedLinear(linear, torch.float32, nn.GELU())(x), expected, atol=1e-6)
    True
    """

    weight: Tensor  # (N, K), in an opaque layout of oneDNN
    bias: Tensor | None  # (N)

    def __init__(
        self, linear: nn.Linear, dtype: torch.dtype, activation: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.dtype = dtype
        self.activation, self.algorithm = _onednn_activation(activation)
        weight = linear.weight.detach().to(dtype).contiguous()
        self.register_buffer("weight", pack_linear(weight), persistent=False)
        bias = None if linear.bias is None else linear.bias.detach().to(dtype)
        self.register_buffer("bias", bias, persistent=False)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """x (..., K) -> (..., N), in the dtype of x."""
        y = packed_linear(x.to(self.dtype), self.weight, self.bias, self.activation, self.algorithm)
        return y.to(x.dtype)


def _onednn_activation(activation: nn.Module | None) -> tuple[str, str]:
    """The name of an activation in oneDNN, and its algorithm."""
    match activation:
        case None:
            return "none", ""
        case nn.ReLU():
            return "relu", ""
        case nn.GELU():
            return "gelu", activation.approximate  # "none" or "tanh"
        case nn.SiLU():
            return "swish", ""
        case _:
            raise AssertionError(f"{activation} is not an activation of jumok.nn.feedforward")


class CastLinear(nn.Module):
    """act(x W^T + b) in another dtype than that of x, for processors that oneDNN does not support.

    >>> CastLinear(nn.Linear(8, 4), torch.bfloat16)(torch.randn(2, 8)).dtype
    torch.float32
    """

    weight: Tensor  # (N, K)
    bias: Tensor | None  # (N)

    def __init__(
        self, linear: nn.Linear, dtype: torch.dtype, activation: nn.Module | None = None
    ) -> None:
        super().__init__()
        bias = None if linear.bias is None else linear.bias.detach().to(dtype)
        self.register_buffer("weight", linear.weight.detach().to(dtype), persistent=False)
        self.register_buffer("bias", bias, persistent=False)
        self.activation = activation or nn.Identity()

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """x (..., K) -> (..., N), in the dtype of x."""
        y = nn.functional.linear(x.to(self.weight.dtype), self.weight, self.bias)
        return self.activation(y).to(x.dtype)  # type: ignore[no-any-return]


def linear_factory(dtype: torch.dtype) -> LinearFactory:
    """A factory of linear maps in float32 or bfloat16, packed if oneDNN supports the dtype."""

    def make(linear: nn.Linear, activation: nn.Module | None) -> nn.Module:
        linear_class = PackedLinear if has_onednn(dtype) else CastLinear
        return linear_class(linear, dtype, activation)

    return make


def quantized_linear(linear: nn.Linear, activation: nn.Module | None) -> nn.Module:
    """A linear map with int8 weights and dynamically quantized inputs.

    >>> quantized_linear(nn.Linear(64, 512), None)
    QuantizedLinear()
    """
    quantized = QuantizedLinear(linear)
    return quantized if activation is None else nn.Sequential(quantized, activation)


def concat_linears(linears: Sequence[nn.Linear]) -> nn.Linear:
    """Several linear maps of the same input as one, with concatenated outputs.

    >>> concat_linears([nn.Linear(8, 4), nn.Linear(8, 2)])
    Linear(in_features=8, out_features=6, bias=True)
    """
    first = linears[0]
    outputs = sum(linear.out_features for linear in linears)
    with torch.device("meta"):  # skips the random initialization
        result = nn.Linear(first.in_features, outputs, bias=first.bias is not None)
    with torch.no_grad():
        result.weight = nn.Parameter(torch.cat([linear.weight for linear in linears]))
        if first.bias is not None:
            result.bias = nn.Parameter(torch.cat([linear.bias for linear in linears]))
    return result
