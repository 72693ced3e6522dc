"""Mixed precision: compute in bfloat16, weights in float32.

Autocast multiplies matrices in bfloat16 and keeps the weights in float32. The residual stream,
which every layer reads and writes, would stay float32: a hook on each embedding casts it to
bfloat16, without a change of any module.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from jumok.models.embedding import InputEmbedding


@contextmanager
def autocast_model(model: nn.Module, device: torch.device, dtype: torch.dtype) -> Iterator[None]:
    """Context in which `model` computes in `dtype`; float32 changes nothing."""
    if dtype == torch.float32:
        yield
        return

    def cast_residual(module: nn.Module, inputs: object, x: Tensor) -> Tensor:
        return x.to(dtype)

    embeddings = [m for m in model.modules() if isinstance(m, InputEmbedding)]
    hooks = [embedding.register_forward_hook(cast_residual) for embedding in embeddings]
    try:
        with torch.autocast(device.type, dtype):
            yield
    finally:
        for hook in hooks:
            hook.remove()
