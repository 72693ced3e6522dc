"""Layers that keep their input alone, and compute again what their gradients need.

A layer's activations take most of the memory of a training, and its forward pass a third of the
time: for a third more time the activations of one layer at a time are enough (Chen et al. 2016,
"Training Deep Nets with Sublinear Memory Cost"). Dropout draws the same numbers again, so the
gradients are the same to the last bit.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from jumok.nn.layer import TransformerLayer


@contextmanager
def activation_checkpointing(model: nn.Module, *, enabled: bool = True) -> Iterator[None]:
    """Inside, the layers of the model that learn recompute; outside they are as they were."""
    layers = [m for m in model.modules() if isinstance(m, TransformerLayer)] if enabled else []
    for layer in layers:
        layer.forward = _again(layer, layer.forward)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward  # its class has the plain one


def _again(layer: nn.Module, forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def forward_again(*inputs: object, **named: object) -> Tensor:
        if not (layer.training and torch.is_grad_enabled()):
            return forward(*inputs, **named)
        whole = partial(forward, **named)
        return checkpoint(whole, *inputs, use_reentrant=False)  # type: ignore[no-any-return]

    return forward_again
