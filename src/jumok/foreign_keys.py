"""The keys of configuration files that other libraries write: read, without effect, or refused.

A table lists every key of one file. A key that is not in it may change what the model computes, so
a value that switches something on is refused, or named in one notice where the table says that
unknown keys cannot change an output.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jumok.errors import Message, ModelFileError, or_list
from jumok.terminal import print_notice, to_json_line

OFF: tuple[object, ...] = (
    None,
    False,
    "",
    [],
    {},
)  # a new key with one of these values leaves its option off


@dataclass(frozen=True)
class KeyTable:
    """The keys of a configuration file.

    `read` are those that jumok reads; `without_effect` change nothing that it computes. `refused`
    are not supported: only their neutral values are accepted. `named` are not read either, but a
    model is usable without them: another value than the neutral ones is named in a notice. Null is
    always neutral. An unknown key is treated as `refused` with the values of `OFF`, or as `named`
    with them if `names_unknown`.

    >>> table = KeyTable(read={"r"}, refused={"use_dora": (False,)})
    >>> table.not_neutral({"r": 8, "use_dora": True, "invented": 3})
    ['use_dora', 'invented']
    """

    read: Collection[str] = ()
    without_effect: Collection[str] = ()
    refused: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    named: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    names_unknown: bool = False

    def not_neutral(self, content: Mapping[str, object]) -> list[str]:
        """The keys that are refused with their values."""
        unknown = () if self.names_unknown else self._unknown(content)
        return [*_not_among(content, self.refused), *unknown]

    def not_read(self, content: Mapping[str, object]) -> list[str]:
        """The keys to name: their values are not neutral and nothing reads them."""
        unknown = self._unknown(content) if self.names_unknown else ()
        return [*_not_among(content, self.named), *unknown]

    def check(self, content: Mapping[str, object], path: Path, advice: Message) -> None:
        """Raise ModelFileError for the first refused key; print one notice for the named ones.

        `advice` is what to try with such a file.
        """
        for key in self.not_neutral(content):
            neutral = [to_json_line(each) for each in self.refused.get(key, (None,))]
            raise ModelFileError(
                "pretrained.key_not_supported",
                "{path}: {key} must be {neutral}, got {value}; {advice}",
                path=path,
                key=key[:80],
                neutral=or_list(neutral or ["null"]),
                value=to_json_line(content[key])[:80],
                advice=advice,
            )
        print_not_read(self.not_read(content), path)

    def _unknown(self, content: Mapping[str, object]) -> list[str]:
        """The keys in no table, but for those with a value of `OFF`."""
        known = {*self.read, *self.without_effect, *self.refused, *self.named}
        return [key for key, value in content.items() if key not in known and not _in(value, OFF)]


def print_not_read(keys: Iterable[str], path: Path) -> None:
    """Print one notice that names the keys of a file that nothing reads."""
    names = ", ".join(key[:80] for key in keys)
    if names:
        print_notice(
            Message(
                "pretrained.keys_not_read",
                "jumok: {path}: keys without support are not read: {names}",
                path=path,
                names=names,
            )
        )


def _not_among(
    content: Mapping[str, object], neutral: Mapping[str, tuple[object, ...]]
) -> list[str]:
    """The keys whose values are not neutral."""
    return [
        key for key in neutral if key in content and not _in(content[key], (None, *neutral[key]))
    ]


def _in(value: object, values: Iterable[object]) -> bool:
    """Whether a value is one of these; true is not 1."""
    return any(
        value == each and isinstance(value, bool) == isinstance(each, bool) for each in values
    )
