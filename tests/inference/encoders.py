"""Small encoders that cover every config option, and a batch with every kind of padding."""

import torch
from torch import Tensor, nn

from jumok.models import TransformerConfig
from jumok.nn.rope import RopeConfig
from tests.native.conftest import KINDS, POSITIONS, randomize_vectors

SIZE = {"vocabulary_size": 77, "d_model": 24, "n_heads": 2, "d_ff": 50, "n_layers": 2}
CONFIGS = [
    *(("vaswani", positions) for positions in POSITIONS),
    *((kind, "learned") for kind in KINDS if kind != "vaswani"),
    ("t5", "relative"),
    ("t5", "rotary"),
]
ENCODERS = {  # what only encoders have
    **KINDS,
    "modernbert": {
        "n_layers": 3,
        "norm": "layer_without_bias",
        "norm_first": True,
        "first_norm": False,
        "embedding_norm": True,
        "activation": "gelu",
        "gated": True,
        "bias": False,
        "layer_pattern": "GLL",
        "sliding_window": 4,
        "rope": RopeConfig(base=160_000.0),
        "local_rope": RopeConfig(base=50.0),
        "scale_embedding": False,
        "head_bias": False,
        "head_transform": True,
    },
}
MODERN = ("modernbert", "rotary")
DISENTANGLED = ("both", "content_to_position", "position_to_content", "shared")


for _name in DISENTANGLED:  # terms of the scores; "shared": both, by the maps of the tokens
    _shared = _name == "shared"
    ENCODERS[_name] = {
        "attention": "disentangled",
        "position_terms": "both" if _shared else _name,
        "share_position_maps": _shared,
        "position_norm": _shared,
        "relative_attention_num_buckets": 8 if _shared else 24,
        "relative_attention_max_distance": 24 if _shared else 12,
        "embedding_norm": True,
    }


def config(kind: str, positions: str, **more: object) -> TransformerConfig:
    """The config of a small model."""
    options = {**SIZE, **ENCODERS[kind], "positions": positions, "max_length": 40, **more}
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


def without_gaps() -> tuple[Tensor, Tensor]:
    """The same without the row that has padding inside."""
    ids, mask = batch()
    rows = [0, 1, 2, 4, 5]
    return ids[rows], mask[rows]


def error(a: Tensor, b: Tensor) -> float:
    """max|a - b| / max(1, max|b|), the parity metric."""
    return float((a - b).abs().max() / b.abs().max().clamp(min=1))
