"""Tiny models with random weights."""

from pathlib import Path

import torch
from torch import nn

from jumok.models import TransformerConfig

DIMENSIONS = {"vocabulary_size": 40, "d_model": 16, "n_heads": 2, "d_ff": 32, "n_layers": 2}


def config(**changes: object) -> TransformerConfig:
    """A tiny config with some changes."""
    return TransformerConfig(**(DIMENSIONS | {"max_length": 64} | changes))


@torch.no_grad()
def drawn(model: nn.Module) -> nn.Module:
    """The model with random weights, including biases and norm weights."""
    torch.manual_seed(0)
    for name, weight in model.named_parameters():
        weight.copy_(0.3 * torch.randn_like(weight) + (name.endswith("norm.weight")))
    return model.eval().requires_grad_(False)


def names_in(folder: Path) -> list[str]:
    """The file names in a folder."""
    return sorted(path.name for path in folder.iterdir())
