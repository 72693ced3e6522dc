"""Whether stored weights are those of a model: their names, shapes and types, without torch."""

from collections.abc import Mapping

from jumok.errors import ConfigError, Message, join_messages

Shapes = Mapping[str, tuple[int, ...]]


def check_shapes(expected: Shapes, found: Shapes, not_floating: Mapping[str, str]) -> None:
    """Raise ConfigError unless the weights found have the names and shapes of a model.

    The message has every missing or unexpected name and every wrong shape; `not_floating` are the
    dtypes of weights that are not floating point, by name.

    >>> check_shapes({"bias": (3,)}, {"bias": (2,)}, {})
    Traceback (most recent call last):
    jumok.errors.ConfigError: the weights do not fit the model: bias is (2,), not (3,); give the \
weights of this model
    """
    wrong = [missing(name) for name in sorted(expected.keys() - found.keys())]
    wrong += [unexpected(name) for name in sorted(found.keys() - expected.keys())]
    wrong += [
        Message(
            "model.tensor_of_other_shape",
            "{name} is {shape}, not {expected}",
            name=name,
            shape=found[name],
            expected=expected[name],
        )
        for name in sorted(expected.keys() & found.keys())
        if found[name] != expected[name]
    ]
    wrong += [
        Message(
            "model.tensor_of_integers",
            "{name} is {dtype}, not floating point",
            name=name,
            dtype=dtype,
        )
        for name, dtype in sorted(not_floating.items())
    ]
    if wrong:
        raise ConfigError(
            "model.weights_do_not_fit",
            "the weights do not fit the model: {wrong}; give the weights of this model",
            wrong=join_messages("; ", wrong),
        )


def missing(name: str) -> Message:
    """The fault of a tensor that is not there."""
    return Message("model.tensor_missing", "{name} is missing", name=name)


def unexpected(name: str) -> Message:
    """The fault of a tensor that the model does not have."""
    return Message("model.tensor_unexpected", "{name} is unexpected", name=name)
