"""The hyperparameters of one layer and their validation."""

import math
from dataclasses import dataclass
from typing import Final, Literal

from jumok.errors import InputError
from jumok.nn.feedforward import Activation

MAX_DIMENSION: Final = 2**31


@dataclass(frozen=True, kw_only=True)
class LayerConfig:
    """The hyperparameters of one layer; the defaults are the base model of the paper (table 3)."""

    d_model: int = 512
    n_heads: int = 8
    d_head: int | None = None  # None: d_model / n_heads; T5 sets it independently
    d_ff: int = 2048
    activation: Activation = "relu"
    gated: bool = False  # True in T5 v1.1
    bias: bool = True  # False in T5: its linear layers have none
    norm: Literal["layer", "rms"] = "layer"
    norm_first: bool = False  # True in GPT-2 and T5
    norm_eps: float = 1e-5
    attention_scale: float | None = None  # None: 1/sqrt(d_head); 1.0 in T5
    relative_attention_num_buckets: int = 32  # relative positions: parameters per head
    relative_attention_max_distance: int = 128  # from here on, distances share the last bucket
    dropout: float = 0.1  # on the output of each sublayer (5.4)
    attention_dropout: float = 0.0  # on the weights; 0.1 in BERT
    activation_dropout: float = 0.0  # inside the feed-forward layer; 0.1 in T5

    def __post_init__(self) -> None:
        _check_attention_and_norm(self)
        for name in ("d_model", "n_heads", "d_ff"):
            check_dimension(name, getattr(self, name))
        if self.d_head is None and self.d_model % self.n_heads:
            raise InputError(
                f"d_model must be divisible by n_heads, got d_model={self.d_model}, "
                f"n_heads={self.n_heads}; try {_nearest_divisor(self.d_model, self.n_heads)} heads"
            )
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise InputError(
                    f"{name} must be at least 0 and below 1, got {getattr(self, name)}"
                )


def check_dimension(name: str, size: int) -> None:
    """Raises InputError for a dimension below 1 or above `MAX_DIMENSION`."""
    if size < 1:
        raise InputError(f"{name} must be at least 1, got {size}")
    if size > MAX_DIMENSION:
        raise InputError(f"{name} must be at most {MAX_DIMENSION:,}, got {str(size)[:24]}")


def _check_attention_and_norm(config: LayerConfig) -> None:
    """Raises InputError for unusable hyperparameters of attention and norms."""
    if config.d_head is not None:
        check_dimension("d_head", config.d_head)
    for name in ("norm_eps", "attention_scale"):
        value = getattr(config, name)
        if value is not None and not 0.0 < value < math.inf:
            raise InputError(f"{name} must be positive and finite, got {value}; or leave it out")
    buckets = config.relative_attention_num_buckets
    distance = config.relative_attention_max_distance
    if buckets < 4 or distance <= buckets // 2 or max(buckets, distance) > MAX_DIMENSION:
        raise InputError(
            "relative_attention_num_buckets must be at least 4 and relative_attention_max_distance "
            f"more than half of it, both at most {MAX_DIMENSION:,}, got {buckets} and {distance}"
        )


def _nearest_divisor(n: int, target: int) -> int:
    """The divisor of n nearest to `target`; the larger one of a tie.

    >>> _nearest_divisor(512, 7)
    8
    """
    smaller = (i for i in range(1, math.isqrt(n) + 1) if n % i == 0)
    divisors = (divisor for i in smaller for divisor in (i, n // i))
    return min(divisors, key=lambda i: (abs(i - target), -i))
