"""The corpora jumok knows by name: where each comes from, its licence and its checksums."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from jumok.config import nearest
from jumok.data.formats import Format
from jumok.errors import InputError


@dataclass(frozen=True)
class CorpusFile:
    """One file of a corpus; checksum and size in bytes are those of the unpacked content."""

    name: str
    sha256: str
    size: int
    address: str  # where the unpacked content can be fetched


@dataclass(frozen=True)
class Rows:
    """The rows of a split: those from `first` up to `stop` of one file, or of parallel files."""

    files: tuple[str, ...]
    first: int = 0
    stop: int | None = None


@dataclass(frozen=True)
class Corpus:
    """A corpus: what a person should know before using it, and how its rows are read."""

    name: str
    about: str
    licence: str
    home: str
    columns: Mapping[str, str]  # the name tasks use -> the name in the file's header
    files: tuple[CorpusFile, ...] = ()
    splits: Mapping[str, Rows] = field(default_factory=dict)
    generated: Mapping[str, int] = field(default_factory=dict)  # split -> rows made by default
    format: Format = "tsv"
    labels: tuple[str, ...] = ()  # names; a cell holds the name or its number in this list

    @property
    def size(self) -> int:
        """Bytes of all files, unpacked; 0 for a corpus that is generated."""
        return sum(file.size for file in self.files)


_NSMC = "https://raw.githubusercontent.com/e9t/nsmc/master"

NSMC = Corpus(
    name="nsmc",
    about="Naver movie reviews, negative or positive: 150,000 + 50,000",
    licence="CC0 1.0",
    home="https://github.com/e9t/nsmc",
    columns={"text": "document", "label": "label"},
    labels=("negative", "positive"),
    files=(
        CorpusFile(
            "ratings_train.txt",
            "e03b7d14e9e41be8d464a28057cd25d7396c53e67aa7fd5f7e552c59b0ee2940",
            14_628_807,
            f"{_NSMC}/ratings_train.txt",
        ),
        CorpusFile(
            "ratings_test.txt",
            "8ac9f64052f11dbf6ae0acb5e038f03d90a76f0eda7820cfb3a92d02edfcebda",
            4_893_335,
            f"{_NSMC}/ratings_test.txt",
        ),
    ),
    # There is no official development set; the training file is already in random order.
    splits={
        "train": Rows(("ratings_train.txt",), stop=140_000),
        "dev": Rows(("ratings_train.txt",), first=140_000),
        "test": Rows(("ratings_test.txt",)),
    },
)

NUMBERS = Corpus(
    name="numbers",
    about="spoken Korean numbers, dates, times and prices -> written form; generated, endless",
    licence="Apache-2.0 (part of jumok)",
    home="built in",
    columns={"source": "source", "target": "target"},
    generated={"train": 60_000, "dev": 1_000, "test": 2_000, "test_patterns": 1_000},
)

CORPORA: dict[str, Corpus] = {corpus.name: corpus for corpus in (NSMC, NUMBERS)}

# Files whose cells were quoted twice when they were made; their few empty reviews are known.
QUOTED_TWICE = frozenset(file.sha256 for file in NSMC.files)


def known_corpus(name: str) -> Corpus:
    """The corpus of that name. Raises InputError that names the nearest known one.

    >>> known_corpus("nsmc").licence
    'CC0 1.0'
    >>> known_corpus("nscm")
    Traceback (most recent call last):
    jumok.errors.InputError: no corpus is called 'nscm'; did you mean nsmc?
    """
    if name not in CORPORA:
        raise InputError(f"no corpus is called {name!r}; {nearest(name, list(CORPORA))}")
    return CORPORA[name]
