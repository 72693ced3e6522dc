"""The splits of a recipe: tables by name, with the columns of its task."""

from collections.abc import Mapping
from dataclasses import dataclass

from jumok.data.table import Table
from jumok.errors import DataError

CLASSIFICATION = ("text", "label")
PAIRS = ("text", "pair", "label")
MULTI_LABEL = ("text", "labels")  # any number of labels per cell: "acting|music"
REGRESSION = ("text", "pair", "score")
SEQUENCES = ("source", "target")
TAGGING = (
    "text",
    "tags",
)  # a tag per character, separated by spaces: "B-LC I-LC O O"
TEXTS = ("text",)


@dataclass(frozen=True)
class Splits:
    """The tables of a recipe by name, and the labels or tags if there are any."""

    tables: Mapping[str, Table]
    labels: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Table:
        """The table of a split. Raises InputError with the existing splits."""
        if name not in self.tables:
            raise DataError(
                "data.no_such_split",
                "the data has no {name!r} split; choose one of {tables}, or name a file with "
                "data.{name}",
                name=name,
                tables=", ".join(self.tables),
            )
        return self.tables[name]

    @property
    def train(self) -> Table:
        """The training split, without empty texts."""
        return self["train"]

    @property
    def dev(self) -> Table:
        """The development split, for model selection."""
        return self["dev"]

    @property
    def test(self) -> Table:
        """The test split, scored once at the end."""
        return self["test"]

    @property
    def tests(self) -> tuple[str, ...]:
        """The names of all test splits, which are scored separately.

        >>> Splits({"train": Table.from_columns({}), "docs_test": Table.from_columns({})}).tests
        ('docs_test',)
        """
        return tuple(name for name in self.tables if is_test(name))


def is_test(split: str) -> bool:
    """Whether a split is a test split.

    >>> [is_test(name) for name in ("test", "test_2017_flickr", "news_test", "news_dev")]
    [True, True, True, False]
    """
    return split == "test" or split.startswith("test_") or split.endswith("_test")
