"""Messages with a code and values, and the exceptions of jumok with the exit codes of its commands.

A message is one sentence: what must be, what was given, what to try. Callers and tests tell errors
apart by class and code; `jumok.language` finds the Korean of a message by its code.
"""

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, Self

GOT = ", got "  # begins the values that were given, up to the advice
ADVICE = "; "


class _Omitted:
    """A value that is left out: an ellipsis in every format.

    >>> "got {size:,} and {name!r}".format(size=OMITTED, name=OMITTED)
    'got … and …'
    """

    def __repr__(self) -> str:
        return "…"

    def __format__(self, _format_spec: str) -> str:
        return repr(self)


OMITTED = _Omitted()


class Message:
    """A text for people: a code, an English template and the values of its fields.

    A value may be a message or an exception of jumok; it is translated with the whole.

    >>> message = Message("nn.size", "size must be at least {least}, got {size}", least=1, size=0)
    >>> message.code, message.values["size"], str(message)
    ('nn.size', 0, 'size must be at least 1, got 0')
    """

    def __init__(self, code: str, template: str, /, **values: object) -> None:
        self.code, self.template, self.values = code, template, values
        self.where = ""  # the file or key that a function further out has added

    def __str__(self) -> str:
        return self.fill(self.template, self.values)

    def __repr__(self) -> str:
        return f"Message({self.code!r}, {str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.code, str(self)))

    def fill(self, template: str, values: dict[str, object]) -> str:
        """A template of this message, in English or another language, with values."""
        text = template.format(**values)
        return f"{self.where}: {text}" if self.where else text

    def at(self, where: object) -> Self:
        """A copy that begins with the place, as a path or a line.

        >>> str(Message("toml.syntax", "not TOML").at("recipe.toml"))
        'recipe.toml: not TOML'
        """
        located = copy.copy(self)
        located.where = f"{where}: {self.where}" if self.where else str(where)
        return located

    def to_json(self) -> dict[str, object]:
        """The code, the template and the values, for another process.

        >>> Message.from_json(Message("a.b", "{n} rows", n=2).to_json())
        Message('a.b', '2 rows')
        """
        values = {name: _to_json(value) for name, value in self.values.items()}
        return {"code": self.code, "template": self.template, "values": values}

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> "Message":
        """The message that `to_json` described."""
        values = {
            name: cls.from_json(value) if isinstance(value, dict) else value
            for name, value in tree["values"].items()
        }
        omitted = {name: OMITTED for name, value in values.items() if value == str(OMITTED)}
        return cls(tree["code"], tree["template"], **values | omitted)

    def without(self, given: Collection[str] = ()) -> Self:
        """A copy without the values that were given: servers do not repeat what they received.

        Left out are the place, the fields after ", got" up to the advice, and every text that
        contains one of `given` or is contained in it.

        >>> message = Message("nn.size", "size must be at least {least}, got {size}; try 1",
        ...     least=1, size="my secret")
        >>> str(message.without())
        'size must be at least 1, got …; try 1'
        """
        before, got, after = self.template.partition(GOT)
        received = after.partition(ADVICE)[0] if got else ""
        public = copy.copy(self)
        public.where = ""
        public.values = {}
        for name, value in self.values.items():
            if isinstance(value, JumokError):
                value = value.message
            if isinstance(value, Message):
                value = value.without(given)
            elif (f"{{{name}" in received and f"{{{name}" not in before) or (
                isinstance(value, str) and any(value and value in text for text in given)
            ):
                value = OMITTED
            public.values[name] = value
        return public


def _to_json(value: object) -> object:
    if isinstance(value, JumokError):
        value = value.message
    if isinstance(value, Message):
        return value.to_json()
    return value if isinstance(value, str | int | float | None) else str(value)


def join_messages(separator: str, parts: Sequence[Message | str]) -> Message:
    """One message of several, such as the lines of a list.

    >>> str(join_messages("; ", [Message("a.b", "{n} rows", n=2), "1 more"]))
    '2 rows; 1 more'
    """
    names = [f"part_{number}" for number in range(len(parts))]
    template = separator.join(f"{{{name}}}" for name in names)
    return Message("message.list", template, **dict(zip(names, parts, strict=True)))


def or_list(values: Iterable[object]) -> object:
    """A value of a message: any one of these values, at least one.

    >>> str(or_list(["a", "b", 3]))
    'a or b or 3'
    """
    return reduce(
        lambda first, last: Message("list.or", "{first} or {last}", first=first, last=last), values
    )


def and_list(values: Iterable[object]) -> object:
    """A value of a message: all of these values, at least one.

    >>> str(and_list(["a", "b"]))
    'a and b'
    """
    return reduce(
        lambda first, last: Message("list.and", "{first} and {last}", first=first, last=last),
        values,
    )


class JumokError(Exception):
    """Base of all expected errors; any other exception that escapes is a bug.

    >>> try:
    ...     raise InputError("steps.least", "steps must be at least 1, got {steps}", steps=0)
    ... except JumokError as error:
    ...     error.exit_code, error.code, error.values, str(error)
    (2, 'steps.least', {'steps': 0}, 'steps must be at least 1, got 0')
    """

    exit_code = 1

    def __init__(self, code: str | Message, template: str = "", /, **values: object) -> None:
        assert template or isinstance(code, Message), code
        self.message = code if isinstance(code, Message) else Message(code, template, **values)
        super().__init__(str(self.message))

    def __reduce__(self) -> tuple[type[Self], tuple[Message], dict[str, object]]:
        return type(self), (self.message,), self.__dict__  # for other processes

    @property
    def code(self) -> str:
        """The stable name of the message, as "recipe.unknown_key"."""
        return self.message.code

    @property
    def values(self) -> dict[str, object]:
        """The values of the message's fields by name."""
        return self.message.values

    def __str__(self) -> str:
        return str(self.message)

    def at(self, where: object) -> Self:
        """A copy whose message begins with the place, as a path or a line."""
        located = copy.copy(self)
        located.message = self.message.at(where)
        located.args = (str(located.message),)
        return located


class InputError(JumokError, ValueError):
    """Invalid arguments, recipe, file or row."""

    exit_code = 2


@contextmanager
def located(where: object) -> Iterator[None]:
    """Context in which the message of an InputError begins with the place, as a path.

    >>> with located("recipe.toml"):
    ...     raise InputError("toml.syntax", "not TOML")
    Traceback (most recent call last):
    jumok.errors.InputError: recipe.toml: not TOML
    """
    try:
        yield
    except InputError as error:
        raise error.at(where) from error


class UsageError(InputError):
    """Arguments or options of a command that do not fit together."""


class ConfigError(InputError):
    """Hyperparameters or settings that no model or part of it can have."""


class RecipeError(ConfigError):
    """A recipe with an unknown key, a wrong value or values that exclude each other."""


class DataError(InputError):
    """A corpus, a file of rows or a row that cannot be used."""


class TokenizerError(InputError):
    """A text, a vocabulary or a tokenizer that cannot be used."""


class ModelFileError(InputError):
    """A checkpoint, configuration or weights of another library that cannot be opened."""


class DecodingError(InputError):
    """Settings of decoding, or constraints, that cannot be met."""


class TraceError(InputError):
    """A trace, a figure or a page that cannot be made from what was given."""


class ExportError(InputError):
    """A model that the asked format cannot contain, or an export that differs from it."""


class MissingDependencyError(InputError):
    """An optional library that is not installed."""


class StorageError(JumokError):
    """A file that cannot be read or written."""

    exit_code = 3


class NonFiniteError(JumokError):
    """A loss, a gradient or an answer is infinite or NaN."""

    exit_code = 4


class CheckpointError(JumokError):
    """No checkpoint can be resumed."""

    exit_code = 5


class ProcessLostError(JumokError):
    """Another process of the same training ended or did not respond in time."""

    exit_code = 6


class Interrupted(JumokError):  # noqa: N818  (it is not an error)
    """A signal ended the work after everything was saved; `signal_number` is one of its values."""

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        """128 and the signal: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + int(str(self.values["signal_number"]))
