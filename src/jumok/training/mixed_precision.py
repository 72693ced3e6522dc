"""bfloat16 from outside: a training step in half the bytes, the weights in full float32.

Autocast multiplies matrices in bfloat16 and keeps the masters in float32. What is left of float32
is the stream of residuals, read and written by every layer: it is made bfloat16 as well, by a
hook on each embedding, so that no module knows of it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from jumok.models.embedding import InputEmbedding


@contextmanager
def autocast_model(model: nn.Module, device: torch.device, dtype: torch.dtype) -> Iterator[None]:
    """Inside, `model` computes in `dtype`; float32 changes nothing."""
    if dtype == torch.float32:
        yield
        return

    def lighten(module: nn.Module, inputs: object, x: Tensor) -> Tensor:
        return x.to(dtype)

    embeddings = [m for m in model.modules() if isinstance(m, InputEmbedding)]
    hooks = [embedding.register_forward_hook(lighten) for embedding in embeddings]
    try:
        with torch.autocast(device.type, dtype):
            yield
    finally:
        for hook in hooks:
            hook.remove()
