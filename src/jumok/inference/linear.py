"""Linear maps for reading: weights packed once for oneDNN, the activation inside the product.

Shapes: n rows, K inputs, N outputs.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from jumok.native.quantize import QuantizedLinear

# Makes the map that reads in the place of a plain one, with the activation that follows, if any.
LinearFactory = Callable[[nn.Linear, nn.Module | None], nn.Module]


class PackedLinear(nn.Module):
    """act(x W^T + b) with W in the order in which oneDNN reads it, in float32 or bfloat16.

    A float32 product is one of true float32 unless torch was told otherwise (`set_float32_matmul_
    precision`). Gradients do not pass.

    >>> linear, x = nn.Linear(8, 4), torch.randn(2, 3, 8)
    >>> with torch.no_grad():
    ...     plain = nn.functional.gelu(linear(x))
    >>> torch.allclose(PackedLinear(linear, torch.float32, nn.GELU())(x), plain, atol=1e-6)
    True
    """

    weight: Tensor  # (N, K), oneDNN's own: nobody else can read it
    bias: Tensor | None  # (N)

    def __init__(
        self, linear: nn.Linear, dtype: torch.dtype, activation: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.dtype = dtype
        self.activation, self.algorithm = _onednn_activation(activation)
        weight = linear.weight.detach().to(dtype).contiguous()
        packed = torch.ops.mkldnn._reorder_linear_weight(weight)
        self.register_buffer("weight", packed, persistent=False)
        bias = None if linear.bias is None else linear.bias.detach().to(dtype)
        self.register_buffer("bias", bias, persistent=False)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """x (..., K) -> (..., N), in the type of x."""
        y = torch.ops.mkldnn._linear_pointwise(
            x.to(self.dtype), self.weight, self.bias, self.activation, [], self.algorithm
        )
        return y.to(x.dtype)  # type: ignore[no-any-return]


def _onednn_activation(activation: nn.Module | None) -> tuple[str, str]:
    """An activation as oneDNN names it, and which way of computing it."""
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
            raise AssertionError(f"{activation} is none of those of `jumok.nn.feedforward`")


class CastLinear(nn.Module):
    """act(x W^T + b) in another type than that of x: for processors that oneDNN does not know.

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
        """x (..., K) -> (..., N), in the type of x."""
        y = nn.functional.linear(x.to(self.weight.dtype), self.weight, self.bias)
        return self.activation(y).to(x.dtype)  # type: ignore[no-any-return]


def linear_factory(dtype: torch.dtype) -> LinearFactory:
    """Maps in float32 or bfloat16: packed where oneDNN has products of that type."""
    known = torch._C._has_mkldnn and (
        dtype == torch.float32 or torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )
    kind = PackedLinear if known else CastLinear

    def make(linear: nn.Linear, activation: nn.Module | None) -> nn.Module:
        return kind(linear, dtype, activation)

    return make


def quantized_linear(linear: nn.Linear, activation: nn.Module | None) -> nn.Module:
    """A map of one byte a weight, its inputs quantised row by row.

    >>> in_int8(nn.Linear(64, 512), None)
    QuantizedLinear()
    """
    quantized = QuantizedLinear(linear)
    return quantized if activation is None else nn.Sequential(quantized, activation)


def concat_linears(linears: Sequence[nn.Linear]) -> nn.Linear:
    """Several maps of the same inputs as one: their outputs side by side.

    >>> joined([nn.Linear(8, 4), nn.Linear(8, 2)])
    Linear(in_features=8, out_features=6, bias=True)
    """
    first = linears[0]
    outputs = sum(part.out_features for part in linears)
    with torch.device("meta"):  # its own numbers would be drawn for nothing
        whole = nn.Linear(first.in_features, outputs, bias=first.bias is not None)
    with torch.no_grad():
        whole.weight = nn.Parameter(torch.cat([part.weight for part in linears]))
        if first.bias is not None:
            whole.bias = nn.Parameter(torch.cat([part.bias for part in linears]))
    return whole
