"""Derived buffers in checkpoints: each is checked against the values it must have."""

import torch
from torch import Tensor, nn

from jumok.nn.positions import RotaryPositions, SinusoidalPositions

SINUSOID_TOLERANCE = 1e-4  # difference between implementations


def is_arange(model: nn.Module, tensor: Tensor) -> bool:
    """0, 1, 2, ...: position ids.

    >>> is_arange(nn.Identity(), torch.tensor([[0, 1, 2]]))
    True
    """
    flat = tensor.flatten()
    return torch.equal(flat.long(), torch.arange(len(flat)))


def is_zero(model: nn.Module, tensor: Tensor) -> bool:
    """All zeros: the token type ids of a single text."""
    return not bool(tensor.any())


def is_causal_mask(model: nn.Module, tensor: Tensor) -> bool:
    """1 where a query may attend to a key, (1, 1, T, T): the causal mask of GPT-2."""
    square = tensor[0, 0] if tensor.shape[:-2] == (1, 1) else tensor
    return square.ndim == 2 and torch.equal(square.long(), torch.ones_like(square).long().tril())


def is_negative_infinity(model: nn.Module, tensor: Tensor) -> bool:
    """A scalar used as minus infinity."""
    return tensor.numel() == 1 and float(tensor) <= -1e4


def is_sinusoidal_table(model: nn.Module, tensor: Tensor) -> bool:
    """The sinusoidal position table that the model computes, in the precision of the file."""
    if not tensor.is_floating_point():
        return False
    tolerance = SINUSOID_TOLERANCE + torch.finfo(tensor.dtype).eps
    tables = [m.table for m in model.modules() if isinstance(m, SinusoidalPositions)]
    return any(
        table.shape == tensor.shape
        and bool((table.cpu() - tensor.float()).abs().max() <= tolerance)
        for table in tables
    )


def is_rotary_frequencies(model: nn.Module, tensor: Tensor) -> bool:
    """The frequencies of the rotary positions, in files of older versions of transformers."""
    tolerance = SINUSOID_TOLERANCE + torch.finfo(tensor.dtype).eps
    tables = [m.frequencies for m in model.modules() if isinstance(m, RotaryPositions)]
    return any(
        table.shape == tensor.shape
        and bool(torch.allclose(table, tensor.float(), rtol=tolerance, atol=0.0))
        for table in tables
    )
