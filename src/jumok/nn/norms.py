"""Normalization: LayerNorm with and without a bias, RMSNorm, and Gemma's, relative to 1.

A norm of an extension is a class or function with the arguments of those of torch:
(width, eps=...), and the module that it returns maps (..., width) to the same shape.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jumok.nn.config import NORMS


class OffsetRMSNorm(nn.RMSNorm):
    """RMSNorm that multiplies by 1 + weight (Gemma): a weight of 0 changes nothing.

    >>> tuple(OffsetRMSNorm(4, eps=1e-6)(torch.full((1, 4), 3.0)).round().tolist()[0])
    (1.0, 1.0, 1.0, 1.0)
    """

    def reset_parameters(self) -> None:
        """Set the weights to 0."""
        nn.init.zeros_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) -> (..., D); computed in float32 at least, as in transformers."""
        dtype = torch.promote_types(x.dtype, torch.float32)
        scale = 1.0 + self.weight.to(dtype)
        return F.rms_norm(x.to(dtype), self.normalized_shape, scale, self.eps).to(x.dtype)


def layer_norm_without_bias(width: int, *, eps: float) -> nn.LayerNorm:
    """LayerNorm that multiplies by its weight and adds nothing (ModernBERT).

    >>> layer_norm_without_bias(4, eps=1e-5).bias is None
    True
    """
    return nn.LayerNorm(width, eps=eps, bias=False)


def make_norm(kind: str, width: int, eps: float) -> nn.Module:
    """A new norm over the last dimension of `width` numbers.

    >>> make_norm("rms", 4, 1e-6)
    RMSNorm((4,), eps=1e-06, elementwise_affine=True)
    """
    return NORMS.get(kind)(width, eps=eps)
