"""The rotation of Llama 3 in GGUF files, which hold it as a table: `rope_freqs.weight`.

The frequency of each pair is divided by its number in the table: 1 for high frequencies, `factor`
for low ones (convert_hf_to_gguf.py, `generate_extra_tensors`). The settings that the table was made
from are found again; the limits of all published models are 1 and 4.
"""

import math
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from jumok.errors import ModelFileError
from jumok.formats.gguf_architectures import ROPE_TABLE
from jumok.nn.rope import RopeConfig, rope_frequencies

LOW, HIGH = 1.0, 4.0  # the limits: original_length / 1 and original_length / 4
_TOLERANCE = 1e-5  # float32, after a division and an interpolation


def frequency_divisors(rope: RopeConfig, d_head: int) -> NDArray[np.float32]:
    """What the frequency of each pair is divided by: (K/2,).

    >>> rope = RopeConfig(scaling="llama3", factor=8.0, original_length=64)
    >>> frequency_divisors(rope, 4).tolist()
    [1.0, 8.0]
    """
    cpu = torch.device("cpu")
    plain = rope_frequencies(replace(rope, scaling="none"), d_head, cpu).double()
    divisors: NDArray[np.float32] = (plain / rope_frequencies(rope, d_head, cpu).double()).numpy()
    return divisors.astype(np.float32)


def rope_of_table(table: NDArray[np.float32], base: float) -> RopeConfig:
    """The rotation with this table of divisors. Raises InputError if it is not one of Llama 3.

    >>> rope = RopeConfig(base=100.0, scaling="llama3", factor=8.0, original_length=64)
    >>> rope_of_table(frequency_divisors(rope, 16), 100.0) == rope
    True
    """
    divisors = table.astype(np.float64).ravel()
    refused = ModelFileError(
        "pretrained.unknown_rope_table",
        "{rope_table} must be the scaling of Llama 3 with limits {low:g} and {high:g}, got "
        "another table; import the original checkpoint",
        rope_table=ROPE_TABLE,
        low=LOW,
        high=HIGH,
    )
    if not (divisors.size and np.isfinite(divisors).all() and divisors.min() >= 1):
        raise refused
    factor = float(divisors.max())
    if factor == 1.0:
        return RopeConfig(base=base)
    between = np.flatnonzero((divisors > 1) & (divisors < factor))
    if not between.size:
        raise refused  # any of several lengths
    pair = int(between[0])
    share = (1 / divisors[pair] - 1 / factor) / (
        1 - 1 / factor
    )  # 0 at the low, 1 at the high limit
    wavelength = 2 * math.pi * base ** (pair / divisors.size)
    length = round((LOW + share * (HIGH - LOW)) * wavelength)
    if not 1 <= length <= 2**31:
        raise refused
    rope = RopeConfig(base=base, scaling="llama3", factor=factor, original_length=length)
    if not np.allclose(frequency_divisors(rope, 2 * divisors.size), divisors, rtol=_TOLERANCE):
        raise refused
    return rope
