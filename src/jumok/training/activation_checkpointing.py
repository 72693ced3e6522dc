"""Activation checkpointing: layers save only their input and recompute their activations.

Activations take most of the memory of training, and the forward pass takes a third of its time. For
a third more time, only the activations of one layer at a time are in memory (Chen et al. 2016,
"Training Deep Nets with Sublinear Memory Cost"). Dropout draws the same numbers again, so the
gradients are bit-identical.
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
    """Context in which the layers of the model recompute their activations in training."""
    layers = [m for m in model.modules() if isinstance(m, TransformerLayer)] if enabled else []
    for layer in layers:
        layer.forward = _recomputed(layer, layer.forward)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward  # the method of its class is back


def _recomputed(layer: nn.Module, forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def recomputed(*inputs: object, **named: object) -> Tensor:
        if not (layer.training and torch.is_grad_enabled()):
            return forward(*inputs, **named)
        bound = partial(forward, **named)
        return checkpoint(bound, *inputs, use_reentrant=False)  # type: ignore[no-any-return]

    return recomputed
