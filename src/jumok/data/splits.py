"""The splits of a recipe: tables by name, of the columns its task asks for."""

from collections.abc import Mapping
from dataclasses import dataclass

from jumok.data.table import Table
from jumok.errors import InputError

CLASSIFICATION = ("text", "label")
PAIRS = ("text", "pair", "label")
REGRESSION = ("text", "pair", "score")
SEQUENCES = ("source", "target")
TAGGING = ("text", "tags")  # a tag for each character, parted by spaces: "서울 가", "B-LC I-LC O O"
TEXTS = ("text",)


@dataclass(frozen=True)
class Splits:
    """The tables of a recipe by name, and the names of the labels or tags when there are any."""

    tables: Mapping[str, Table]
    labels: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Table:
        """The table of a split. Raises InputError that names those there are."""
        if name not in self.tables:
            raise InputError(
                f"the data has no {name!r} split; it has {', '.join(self.tables)}: "
                f"name one of them, or a file with data.{name}"
            )
        return self.tables[name]

    @property
    def train(self) -> Table:
        """What is learned from; it never holds an empty text."""
        return self["train"]

    @property
    def dev(self) -> Table:
        """What everything is chosen on."""
        return self["dev"]

    @property
    def test(self) -> Table:
        """What is scored once, at the end."""
        return self["test"]

    @property
    def tests(self) -> tuple[str, ...]:
        """The names of all splits that are scored once, at the end: each has its own score.

        >>> Splits({"train": Table.from_columns({}), "docs_test": Table.from_columns({})}).tests
        ('docs_test',)
        """
        return tuple(name for name in self.tables if is_test(name))


def is_test(split: str) -> bool:
    """Whether a split is scored once, at the end.

    >>> [is_test(name) for name in ("test", "test_2017_flickr", "news_test", "news_dev")]
    [True, True, True, False]
    """
    return split == "test" or split.startswith("test_") or split.endswith("_test")
