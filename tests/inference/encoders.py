"""Encoders with something of everything in them, and batches with padding everywhere."""

import torch
from torch import Tensor, nn

from jumok.models import TransformerConfig
from tests.native.conftest import KINDS, POSITIONS, randomize_vectors

SIZE = {"vocabulary_size": 77, "d_model": 24, "n_heads": 2, "d_ff": 50, "n_layers": 2}
CONFIGS = [
    *(("the paper's", positions) for positions in POSITIONS),
    *((kind, "learned") for kind in KINDS if kind != "the paper's"),
    ("T5's", "relative"),
    ("T5's", "rotary"),
]


def config(kind: str, positions: str, **more: object) -> TransformerConfig:
    """A small model's measures."""
    given = {**SIZE, **KINDS[kind], "positions": positions, "max_length": 40, **more}
    return TransformerConfig(**given)  # type: ignore[arg-type]


def seeded(make: type[nn.Module], *given: object) -> nn.Module:
    """A model with weights of its own, none of them 0 or 1."""
    torch.manual_seed(1)
    return randomize_vectors(make(*given))


def batch() -> tuple[Tensor, Tensor]:
    """Ids and real tokens (6, 9): full, right, left, with a hole, of one token, of none."""
    rows = ("111111111", "111110000", "001111111", "110110000", "000100000", "000000000")
    real = torch.tensor([[letter == "1" for letter in row] for row in rows])
    ids = torch.randint(3, 77, real.shape, generator=torch.Generator().manual_seed(2))
    return ids.masked_fill(~real, 0), real


def error(a: Tensor, b: Tensor) -> float:
    """max|a - b| / max(1, max|b|), as parity is measured."""
    return float((a - b).abs().max() / b.abs().max().clamp(min=1))
