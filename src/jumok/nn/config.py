"""The measures of one layer, and what is refused of them."""

import math
from dataclasses import dataclass
from typing import Final, Literal

from jumok.errors import InputError
from jumok.nn.feedforward import Activation

MAX_DIMENSION: Final = 2**31  # of a measure


@dataclass(frozen=True, kw_only=True)
class LayerConfig:
    """The measures of one layer; as they stand, those of the base model in the paper (table 3)."""

    d_model: int = 512
    n_heads: int = 8
    d_head: int | None = None  # None: d_model / n_heads; T5 chooses it freely
    d_ff: int = 2048
    activation: Activation = "relu"
    gated: bool = False  # True in T5 v1.1
    bias: bool = True  # False in T5: no linear map has one
    norm: Literal["layer", "rms"] = "layer"
    norm_first: bool = False  # True in GPT-2 and T5
    norm_eps: float = 1e-5
    attention_scale: float | None = None  # None: 1/sqrt(d_head); 1.0 in T5
    relative_attention_num_buckets: int = (
        32  # of relative positions: how many numbers a head learns
    )
    relative_attention_max_distance: int = 128  # from here on all distances share the last bucket
    dropout: float = 0.1  # on the result of each part (5.4)
    attention_dropout: float = 0.0  # on the weights; 0.1 in BERT
    activation_dropout: float = 0.0  # inside the feed-forward; 0.1 in T5

    def __post_init__(self) -> None:
        _check_measures(self)
        for name in ("d_model", "n_heads", "d_ff"):
            check_dimension(name, getattr(self, name))
        if self.d_head is None and self.d_model % self.n_heads:
            raise InputError(
                f"d_model {self.d_model} does not divide into {self.n_heads} heads; "
                f"try {_nearest_divisor(self.d_model, self.n_heads)}"
            )
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise InputError(
                    f"{name} {getattr(self, name)} is not a probability; give 0 or more, below 1"
                )


def check_dimension(name: str, size: int) -> None:
    """Raises InputError for what is no measure of a model: below 1, or beyond every machine."""
    if size < 1:
        raise InputError(f"{name} {size} is not a size; give 1 or more")
    if size > MAX_DIMENSION:
        raise InputError(
            f"{name} {str(size)[:24]} is beyond every machine; give {MAX_DIMENSION:,} or less"
        )


def _check_measures(config: LayerConfig) -> None:
    """Raises InputError for measures of attention and of norms that compute nothing."""
    if config.d_head is not None:
        check_dimension("d_head", config.d_head)
    for name in ("norm_eps", "attention_scale"):
        value = getattr(config, name)
        if value is not None and not 0.0 < value < math.inf:
            raise InputError(f"{name} {value}: give a number above 0, or leave it out")
    buckets, distance = (
        config.relative_attention_num_buckets,
        config.relative_attention_max_distance,
    )
    if buckets < 4 or distance <= buckets // 2 or max(buckets, distance) > MAX_DIMENSION:
        raise InputError(
            f"relative_attention_num_buckets {buckets} and relative_attention_max_distance {distance} came; give 4 buckets or "
            f"more, and a distance beyond half of them, {MAX_DIMENSION:,} or less"
        )


def _nearest_divisor(n: int, wanted: int) -> int:
    """The divisor of n nearest to `wanted`, the larger of two.

    >>> _nearest_divisor(512, 7)
    8
    """
    smaller = (i for i in range(1, math.isqrt(n) + 1) if n % i == 0)
    divisors = (divisor for i in smaller for divisor in (i, n // i))
    return min(divisors, key=lambda i: (abs(i - wanted), -i))
