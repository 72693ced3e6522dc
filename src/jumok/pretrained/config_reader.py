"""What a foreign config.json says, asked key by key: the right kind, within reason, or refused."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jumok.errors import InputError
from jumok.nn.feedforward import Activation

MAX_SIZE = 2**31 - 1  # of a size
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
    """The keys of a config.json; one that is absent has the value its family gives it.

    >>> Settings({"hidden_size": 64}).size("hidden_size", 768)
    64
    """

    values: Mapping[str, Any]

    def positive_int(self, key: str, default: int, maximum: int = MAX_SIZE) -> int:
        """A whole number from 1."""
        return self._integer(key, default, 1, maximum)

    def layer_count(self, key: str, default: int) -> int:
        """How many layers: 1 to 1,000."""
        return self._integer(key, default, 1, MAX_LAYERS)

    def non_negative_int(self, key: str, default: int) -> int:
        """A whole number from 0."""
        return self._integer(key, default, 0, MAX_SIZE)

    def probability(self, key: str, default: float) -> float:
        """A number from 0 up to 1: a dropout."""
        return self._float(key, default, 0.0, 0.999)

    def epsilon(self, key: str, default: float) -> float:
        """A number above 0 and at most 1: the epsilon of a norm."""
        return self._float(key, default, 1e-30, 1.0)

    def number(self, key: str, default: float) -> float:
        """Any number of reasonable size."""
        return self._float(key, default, -1e6, 1e6)

    def boolean(self, key: str, default: bool) -> bool:
        """True or false; null is what the family gives."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise _config_error(key, value, "true or false")
        return value

    def string(self, key: str, default: str) -> str:
        """A text."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, str):
            raise _config_error(key, value, "a text")
        return value

    def activation(self, key: str, default: str) -> Activation:
        """The activation of the feed-forward, by our name."""
        word = self.string(key, default)
        if word not in ACTIVATIONS:
            raise _config_error(key, word, f"one of {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[word]

    def token_id(self, key: str) -> int | None:
        """The id of a token, the first where a list stands; None when there is none."""
        value = self.values.get(key)
        if isinstance(value, list) and value:
            value = value[0]
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_SIZE:
            raise _config_error(key, value, "the id of a token")
        return value

    def check_supported(self, key: str, *supported: object) -> None:
        """Raises InputError when `key` asks for what our modules do not do.

        `harmless` are the values that change nothing; an absent key and null are so too.
        """
        value = self.values.get(key)
        if value is not None and value not in supported:
            raise InputError(
                f"config.json: {key} {value!r} came, which our modules do not do; "
                f"{supported[0]!r} can be read"
            )

    def labels(self) -> tuple[str, ...]:
        """The names of the labels in their order: `id2label`, or LABEL_0, LABEL_1."""
        names = self.values.get("id2label")
        if names is None:
            n = self.positive_int("num_labels", 2, maximum=100_000)
            return tuple(f"LABEL_{i}" for i in range(n))
        if not isinstance(names, dict) or not all(type(name) is str for name in names.values()):
            raise _config_error("id2label", names, "a table of names by number")
        if not names or set(names) != {str(i) for i in range(len(names))}:
            raise _config_error("id2label", names, "a name for every number from 0")
        return tuple(names[str(i)] for i in range(len(names)))

    def _integer(self, key: str, default: int, minimum: int, maximum: int) -> int:
        value = self.values.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise _config_error(key, value, f"a whole number from {minimum} to {maximum:,}")
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
    return InputError(f"config.json: {key} {repr(value)[:60]} came; give {expected}")
