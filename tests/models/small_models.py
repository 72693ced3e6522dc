"""Small configs and helpers for the tests of models."""

from typing import Any

import torch
from torch import Tensor

from jumok.models import TransformerConfig
from jumok.nn.positions import POSITIONS as ENCODINGS

POSITIONS = tuple(ENCODINGS.builtin)
VOCABULARY = 11


def small(**changes: Any) -> TransformerConfig:
    """Two layers of width 8, with dropout for training."""
    dimensions: dict[str, Any] = {
        "vocabulary_size": VOCABULARY,
        "d_model": 8,
        "n_heads": 2,
        "d_ff": 12,
        "n_layers": 2,
        "max_length": 32,
        "dropout": 0.2,
        "attention_dropout": 0.2,
        "activation_dropout": 0.2,
    }
    return TransformerConfig(**dimensions | changes)


def set_seed(seed: int = 0) -> None:
    """Seed torch's generator."""
    torch.manual_seed(seed)


def padded(rows: list[Tensor], width: int, *, left: bool = False, pad_id: int = 0) -> Tensor:
    """Rows (n_i) int64 padded to one width: (B, width)."""
    result = torch.full((len(rows), width), pad_id)
    for i, row in enumerate(rows):
        if left:
            result[i, width - len(row) :] = row
        else:
            result[i, : len(row)] = row
    return result
