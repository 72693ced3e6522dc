"""Copies of a model with int8 linear maps, in bfloat16, or with weights rounded to blocks.

    w = scale * q,   q in -127 ... 127,   scale = max|w| / 127 over the weights of one output

Quantization is symmetric: 0 stays 0, and there is no zero point. Inputs are quantized dynamically
in the same way, row by row, and products are accumulated exactly in int32:

    y = (q_x q_w^T) scale_x scale_w + b
"""

import copy

import torch
from torch import Tensor, nn

from jumok.native.gguf_quantize import BLOCK_TYPES, BlockName, quantize
from jumok.native.gguf_types import dequantize
from jumok.nn import TokenEmbedding
from jumok.torch_ops import int8_matmul

INT8_MAX = 127


def quantize_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """x (N, K) -> q (N, K) int8 and scale (N) float32 with x close to scale * q.

    The rounding error is at most half a scale. A row of zeros has scale 1; a row with a NaN has
    scale NaN, so its products are NaN.

    >>> q, scale = quantize_rows(torch.tensor([[1.27, -0.5], [0.0, 0.0]]))
    >>> q.tolist(), scale.tolist()
    ([[127, -50], [0, 0]], [0.009999999776482582, 1.0])
    """
    x = x.float()
    scale = torch.maximum(x.amax(1), -x.amin(1)) / INT8_MAX  # (N)
    scale = scale.where(scale != 0, 1.0)
    q = (x / scale[:, None]).round_().clamp_(-INT8_MAX, INT8_MAX)
    return q.to(torch.int8), scale


class QuantizedLinear(nn.Module):
    """A linear map with int8 weights.

    >>> linear = nn.Linear(8, 4)
    >>> x = torch.randn(2, 3, 8)
    >>> bool((QuantizedLinear(linear)(x) - linear(x)).abs().max() < 0.05)
    True
    """

    weight: Tensor  # (K, N) int8, transposed for int8_matmul
    scale: Tensor  # (N)
    bias: Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        q, scale = quantize_rows(linear.weight.detach())
        self.register_buffer("weight", q.T)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach())

    def forward(self, x: Tensor) -> Tensor:
        """x (..., K) -> (..., N)."""
        q, scale = quantize_rows(x.reshape(-1, x.shape[-1]))  # (M, K), (M)
        y = int8_matmul(q, self.weight) * (scale[:, None] * self.scale)  # (M, N)
        y = y if self.bias is None else y + self.bias
        return y.view(*x.shape[:-1], -1)


def quantize_int8(model: nn.Module) -> nn.Module:
    """A copy of the model with quantized linear maps; embedding tables keep their dtype.

    For inference only: there are no gradients. The model itself does not change. In the tests,
    logits of small models may differ by 0.1 of the largest.

    >>> from jumok.models import LanguageModel, TransformerConfig
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> quantize_int8(LanguageModel(config)).output
    QuantizedLinear()
    """
    quantized = copy.deepcopy(model).eval()
    for parent in list(quantized.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, QuantizedLinear(child))
    return quantized


def round_to_blocks(model: nn.Module, name: BlockName) -> nn.Module:
    """A copy of the model whose linear maps and token tables are rounded to q8_0 or q4_0 blocks.

    It computes in the model's own dtype: the weights of the C++ kernel without the rounding of its
    inputs. The model itself does not change.

    >>> rounded = round_to_blocks(nn.Linear(32, 1), "q4_0")
    >>> len(rounded.weight.unique()) <= 16
    True
    """
    rounded = copy.deepcopy(model).eval()
    with torch.no_grad():
        for module in rounded.modules():
            if isinstance(module, nn.Linear | TokenEmbedding):  # a tied table keeps its values
                weight = module.weight
                blocks = quantize(weight.float().cpu().numpy(), name)
                values = dequantize(blocks.reshape(-1), BLOCK_TYPES[name])
                values = values.reshape(len(weight), -1)[:, : weight.shape[1]]
                weight.copy_(torch.from_numpy(values))
    return rounded


def to_bfloat16(model: nn.Module) -> nn.Module:
    """A copy of the model in bfloat16 for inference. The model itself does not change.

    In the tests, logits of small models may differ by 0.05 of the largest.

    >>> to_bfloat16(nn.Linear(2, 1)).weight.dtype
    torch.bfloat16
    """
    return copy.deepcopy(model).eval().bfloat16()
