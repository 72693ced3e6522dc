"""Tensors some checkpoints carry that no training made: each is checked against what it must be."""

import torch
from torch import Tensor, nn

from jumok.nn.positions import SinusoidalPositions

SINUSOID_TOLERANCE = 1e-4  # tables of sines made by other code differ that much


def is_arange(model: nn.Module, tensor: Tensor) -> bool:
    """0, 1, 2, ...: the numbers of the positions.

    >>> counted_from_zero(nn.Identity(), torch.tensor([[0, 1, 2]]))
    True
    """
    flat = tensor.flatten()
    return torch.equal(flat.long(), torch.arange(len(flat)))


def is_zero(model: nn.Module, tensor: Tensor) -> bool:
    """Zero everywhere: the segments of a text alone."""
    return not bool(tensor.any())


def is_causal_mask(model: nn.Module, tensor: Tensor) -> bool:
    """1 where a query may attend to a key, (1, 1, T, T): GPT-2's causal mask."""
    square = tensor[0, 0] if tensor.shape[:-2] == (1, 1) else tensor
    return square.ndim == 2 and torch.equal(square.long(), torch.ones_like(square).long().tril())


def is_negative_infinity(model: nn.Module, tensor: Tensor) -> bool:
    """One number that stands for minus infinity."""
    return tensor.numel() == 1 and float(tensor) <= -1e4


def is_sinusoidal_table(model: nn.Module, tensor: Tensor) -> bool:
    """The table of sines and cosines the model computes itself, rounded as the file is."""
    if not tensor.is_floating_point():
        return False
    tolerance = SINUSOID_TOLERANCE + torch.finfo(tensor.dtype).eps
    tables = [m.table for m in model.modules() if isinstance(m, SinusoidalPositions)]
    return any(
        table.shape == tensor.shape
        and bool((table.cpu() - tensor.float()).abs().max() <= tolerance)
        for table in tables
    )
