"""What a foreign config.json says, asked key by key: the right kind, within reason, or refused."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jumok.errors import InputError
from jumok.nn.feedforward import Activation

MOST = 2**31 - 1  # of a size
MOST_LAYERS = 1_000

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
class Settings:
    """The keys of a config.json; one that is absent has the value its family gives it.

    >>> Settings({"hidden_size": 64}).size("hidden_size", 768)
    64
    """

    values: Mapping[str, Any]

    def size(self, key: str, absent: int, most: int = MOST) -> int:
        """A whole number from 1."""
        return self._whole(key, absent, 1, most)

    def layers(self, key: str, absent: int) -> int:
        """How many layers: 1 to 1,000."""
        return self._whole(key, absent, 1, MOST_LAYERS)

    def count(self, key: str, absent: int) -> int:
        """A whole number from 0."""
        return self._whole(key, absent, 0, MOST)

    def share(self, key: str, absent: float) -> float:
        """A number from 0 up to 1: a dropout."""
        return self._number(key, absent, 0.0, 0.999)

    def small(self, key: str, absent: float) -> float:
        """A number above 0 and at most 1: the epsilon of a norm."""
        return self._number(key, absent, 1e-30, 1.0)

    def number(self, key: str, absent: float) -> float:
        """Any number of reasonable size."""
        return self._number(key, absent, -1e6, 1e6)

    def flag(self, key: str, absent: bool) -> bool:
        """True or false; null is what the family gives."""
        value = self.values.get(key)
        if value is None:
            return absent
        if not isinstance(value, bool):
            raise _refusal(key, value, "true or false")
        return value

    def word(self, key: str, absent: str) -> str:
        """A text."""
        value = self.values.get(key)
        if value is None:
            return absent
        if not isinstance(value, str):
            raise _refusal(key, value, "a text")
        return value

    def activation(self, key: str, absent: str) -> Activation:
        """The activation of the feed-forward, by our name."""
        word = self.word(key, absent)
        if word not in ACTIVATIONS:
            raise _refusal(key, word, f"one of {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[word]

    def token(self, key: str) -> int | None:
        """The id of a token, the first where a list stands; None when there is none."""
        value = self.values.get(key)
        if isinstance(value, list) and value:
            value = value[0]
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
            raise _refusal(key, value, "the id of a token")
        return value

    def refuse(self, key: str, *harmless: object) -> None:
        """Raises InputError when `key` asks for what our modules do not do.

        `harmless` are the values that change nothing; an absent key and null are so too.
        """
        value = self.values.get(key)
        if value is not None and value not in harmless:
            raise InputError(
                f"config.json: {key} {value!r} came, which our modules do not do; "
                f"{harmless[0]!r} can be read"
            )

    def labels(self) -> tuple[str, ...]:
        """The names of the labels in their order: `id2label`, or LABEL_0, LABEL_1."""
        names = self.values.get("id2label")
        if names is None:
            n = self.size("num_labels", 2, most=100_000)
            return tuple(f"LABEL_{i}" for i in range(n))
        if not isinstance(names, dict) or not all(type(name) is str for name in names.values()):
            raise _refusal("id2label", names, "a table of names by number")
        if not names or set(names) != {str(i) for i in range(len(names))}:
            raise _refusal("id2label", names, "a name for every number from 0")
        return tuple(names[str(i)] for i in range(len(names)))

    def _whole(self, key: str, absent: int, least: int, most: int) -> int:
        value = self.values.get(key)
        if value is None:
            return absent
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise _refusal(key, value, f"a whole number from {least} to {most:,}")
        return value

    def _number(self, key: str, absent: float, least: float, most: float) -> float:
        value = self.values.get(key)
        if value is None:
            return absent
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _refusal(key, value, "a number")
        if not least <= value <= most:
            raise _refusal(key, value, f"a number from {least:g} to {most:g}")
        return float(value)


def _refusal(key: str, value: object, wanted: str) -> InputError:
    return InputError(f"config.json: {key} {repr(value)[:60]} came; give {wanted}")
