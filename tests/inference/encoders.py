"""Small encoders that cover every config option, and a batch with every kind of padding."""

import torch
from torch import Tensor, nn

from jumok.models import TransformerConfig
from tests.native.conftest import KINDS, POSITIONS, randomize_vectors

SIZE = {"vocabulary_size": 77, "d_model": 24, "n_heads": 2, "d_ff": 50, "n_layers": 2}
CONFIGS = [
    *(("vaswani", positions) for positions in POSITIONS),
    *((kind, "learned") for kind in KINDS if kind != "vaswani"),
    ("t5", "relative"),
    ("t5", "rotary"),
]


def config(kind: str, positions: str, **more: object) -> TransformerConfig:
    """The config of a small model."""
    options = {**SIZE, **KINDS[kind], "positions": positions, "max_length": 40, **more}
    return TransformerConfig(**options)  # type: ignore[arg-type]


def seeded(model_class: type[nn.Module], *arguments: object) -> nn.Module:
    """A model with seeded random weights."""
    torch.manual_seed(1)
    return randomize_vectors(model_class(*arguments))


def batch() -> tuple[Tensor, Tensor]:
    """Ids and attention mask (6, 9): no padding, right, left, inside, one token, no token."""
    rows = ("111111111", "111110000", "001111111", "110110000", "000100000", "000000000")
    mask = torch.tensor([[char == "1" for char in row] for row in rows])
    ids = torch.randint(3, 77, mask.shape, generator=torch.Generator().manual_seed(2))
    return ids.masked_fill(~mask, 0), mask


def error(a: Tensor, b: Tensor) -> float:
    """max|a - b| / max(1, max|b|), the parity metric."""
    return float((a - b).abs().max() / b.abs().max().clamp(min=1))
