"""The frequencies of rotary positions: their base, and their scaling to longer texts.

Su et al. 2021, section 3.2; the scaling "llama3" is that of Llama 3.1 (Grattafiori et al. 2024).
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from jumok.config_io import check_choices, check_range
from jumok.errors import ConfigError

if TYPE_CHECKING:  # a config is read without torch
    import torch
    from torch import Tensor

RopeScaling = Literal["none", "linear", "llama3"]


@dataclass(frozen=True, kw_only=True)
class RopeConfig:
    """The angle of pair i at position p is p base^(-2i/K), scaled.

    linear: every frequency is divided by `factor`. llama3: only those whose wavelength exceeds
    `original_length / low_frequency_factor`; those below `original_length / high_frequency_factor`
    do not change, and the others are interpolated.

    Raises InputError for a base or a factor that is not positive.

    >>> RopeConfig(base=500000.0, scaling="llama3", factor=8.0).original_length
    8192
    """

    base: float = 10_000.0
    scaling: RopeScaling = "none"
    factor: float = 1.0
    low_frequency_factor: float = 1.0  # of llama3
    high_frequency_factor: float = 4.0  # of llama3
    original_length: int = 8192  # of llama3: positions before the scaling

    def __post_init__(self) -> None:
        check_choices(self, "rope")
        for name in ("base", "factor"):
            check_range(f"rope.{name}", getattr(self, name), "[1, inf)")
        low, high = self.low_frequency_factor, self.high_frequency_factor
        if not 0.0 < low < high < math.inf:
            raise ConfigError(
                "nn.rope_frequency_factors",
                "rope.low_frequency_factor must be above 0 and below rope.high_frequency_factor, "
                "got {low} and {high}; try 1 and 4",
                low=low,
                high=high,
            )
        check_range("rope.original_length", self.original_length, "[1, 2147483648]")


DEFAULT_ROPE = RopeConfig()


def rope_frequencies(config: RopeConfig, d_head: int, device: "torch.device") -> "Tensor":
    """The angle of each pair at position 1: (K/2,) float32.

    >>> import torch
    >>> cpu = torch.device("cpu")
    >>> rope_frequencies(RopeConfig(base=100.0), 4, cpu)
    tensor([1.0000, 0.1000])
    >>> rope_frequencies(RopeConfig(base=100.0, scaling="linear", factor=2.0), 4, cpu)
    tensor([0.5000, 0.0500])
    """
    import torch

    exponent = torch.arange(0, d_head, 2, device=device).float() / d_head
    frequency = 1.0 / config.base**exponent
    match config.scaling:
        case "none":
            return frequency
        case "linear":
            return frequency / config.factor
        case "llama3":
            return _llama3(config, frequency)


def _llama3(config: RopeConfig, frequency: "Tensor") -> "Tensor":
    """Low frequencies divided by the factor, high ones unchanged, those between interpolated."""
    import torch

    low, high = config.low_frequency_factor, config.high_frequency_factor
    periods = config.original_length / (2 * math.pi / frequency)  # in the original length
    scaled = torch.where(periods < low, frequency / config.factor, frequency)
    share = (periods - low) / (high - low)  # 0 at the low, 1 at the high limit
    between = (1 - share) * frequency / config.factor + share * frequency
    return torch.where((periods < low) | (periods > high), scaled, between)
