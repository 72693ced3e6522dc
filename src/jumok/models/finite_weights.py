"""Weights are finite numbers: the check of an array, and the error of a weight that is not."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jumok.errors import ConfigError

FLOAT32_MAX = float(np.finfo(np.float32).max)
_ELEMENTS = 2**18  # checked at a time, in the processor's cache


def check_finite_array(name: str, array: NDArray[Any], where: str) -> None:
    """Raise ConfigError, which names the array, unless all elements are finite in float32.

    Arrays of uint16 are bfloat16; other integers are finite.

    >>> check_finite_array("bias", np.array([0.0, np.nan]), "model.safetensors")
    Traceback (most recent call last):
    jumok.errors.ConfigError: model.safetensors must have finite weights, got nan in bias; get or \
train it again
    """
    if array.dtype != np.uint16 and array.dtype.kind != "f":
        return
    values = array.reshape(-1)
    for start in range(0, len(values), _ELEMENTS):
        part = values[start : start + _ELEMENTS]
        if array.dtype == np.uint16:  # in the order of magnitudes, NaN after infinity
            largest = int((part & 0x7FFF).max())
            extremes = [np.nan if largest > 0x7F80 else np.inf] if largest >= 0x7F80 else []
        else:
            extremes = [float(part.min()), float(part.max())]
        for value in extremes:
            if not abs(value) <= FLOAT32_MAX:  # NaN compares as False
                raise not_finite_error(where, value, name)


def not_finite_error(where: str, value: float, name: str) -> ConfigError:
    """The error of a weight that is NaN or infinite."""
    return ConfigError(
        "model.weights_not_finite",
        "{where} must have finite weights, got {value} in {name}; get or train it again",
        where=where,
        value=value,
        name=name,
    )
