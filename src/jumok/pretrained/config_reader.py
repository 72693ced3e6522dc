"""Read a Hugging Face config.json key by key, with the type and range of each value checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jumok.errors import InputError, ModelFileError
from jumok.nn.feedforward import Activation

MAX_SIZE = 2**31 - 1
MAX_LAYERS = 1_000

ACTIVATIONS: Mapping[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}


@dataclass(frozen=True)
class ConfigReader:
    """The keys of a config.json; a missing key has the default value of its family.

    >>> ConfigReader({"hidden_size": 64}).positive_int("hidden_size", 768)
    64
    """

    values: Mapping[str, Any]

    def positive_int(self, key: str, default: int, maximum: int = MAX_SIZE) -> int:
        """An integer of 1 or more."""
        return self._integer(key, default, 1, maximum)

    def layer_count(self, key: str, default: int) -> int:
        """A number of layers, 1 to 1,000."""
        return self._integer(key, default, 1, MAX_LAYERS)

    def non_negative_int(self, key: str, default: int) -> int:
        """An integer of 0 or more."""
        return self._integer(key, default, 0, MAX_SIZE)

    def probability(self, key: str, default: float) -> float:
        """A number from 0 to below 1, such as a dropout rate."""
        return self._float(key, default, 0.0, 0.999)

    def epsilon(self, key: str, default: float) -> float:
        """A number above 0 and at most 1, such as the epsilon of a norm."""
        return self._float(key, default, 1e-30, 1.0)

    def number(self, key: str, default: float) -> float:
        """A number from -1e6 to 1e6."""
        return self._float(key, default, -1e6, 1e6)

    def positive_number(self, key: str, default: float) -> float:
        """A number above 0, such as the base of rotary positions."""
        return self._float(key, default, 1e-9, 1e12)

    def table(self, key: str) -> Mapping[str, Any]:
        """An object; {} if it is missing or null."""
        value = self.values.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise _config_error(key, value, "an object")
        return value

    def boolean(self, key: str, default: bool) -> bool:
        """True or false; null is the default."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise _config_error(key, value, "true or false")
        return value

    def string(self, key: str, default: str) -> str:
        """A string; null is the default."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, str):
            raise _config_error(key, value, "a string")
        return value

    def activation(self, key: str, default: str) -> Activation:
        """The activation of the feed-forward, by its jumok name."""
        name = self.string(key, default)
        if name not in ACTIVATIONS:
            raise _config_error(key, name, f"one of {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[name]

    def token_id(self, key: str) -> int | None:
        """A token id, or the first of a list; None if the key is missing."""
        value = self.values.get(key)
        if isinstance(value, list) and value:
            value = value[0]
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_SIZE:
            raise _config_error(key, value, "a token id")
        return value

    def check_supported(self, key: str, *supported: object) -> None:
        """Raise InputError unless `key` is missing, null or one of the `supported` values."""
        value = self.values.get(key)
        if value is not None and value not in supported:
            raise ModelFileError(
                "pretrained.config_value_unsupported",
                "config.json: {key} must be {supported!r}, got {value!r}, which jumok does not "
                "support; use another checkpoint",
                key=key,
                supported=supported[0],
                value=value,
            )

    def labels(self) -> tuple[str, ...]:
        """The label names in order: `id2label`, or LABEL_0, LABEL_1."""
        names = self.values.get("id2label")
        if names is None:
            n = self.positive_int("num_labels", 2, maximum=100_000)
            return tuple(f"LABEL_{i}" for i in range(n))
        if not isinstance(names, dict) or not all(type(name) is str for name in names.values()):
            raise _config_error("id2label", names, "an object from ids to names")
        if not names or set(names) != {str(i) for i in range(len(names))}:
            raise _config_error("id2label", names, "one name for every id from 0")
        return tuple(names[str(i)] for i in range(len(names)))

    def _integer(self, key: str, default: int, minimum: int, maximum: int) -> int:
        value = self.values.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise _config_error(key, value, f"an integer from {minimum} to {maximum:,}")
        return value

    def _float(self, key: str, default: float, minimum: float, maximum: float) -> float:
        value = self.values.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _config_error(key, value, "a number")
        if not minimum <= value <= maximum:
            raise _config_error(key, value, f"a number from {minimum:g} to {maximum:g}")
        return float(value)


def _config_error(key: str, value: object, expected: str) -> InputError:
    return ModelFileError(
        "pretrained.config_value",
        "config.json: {key} must be {expected}, got {value}",
        key=key,
        expected=expected,
        value=repr(value)[:60],
    )
