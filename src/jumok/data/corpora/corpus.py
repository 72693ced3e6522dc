"""What is known of a corpus: its files with their checksums, and which rows make which split."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from jumok.data.files.formats import Format

SplitBy = Literal["rows", "hash", "order", "characters"]


@dataclass(frozen=True)
class CorpusFile:
    """One file of a corpus; checksum and size in bytes are those of the unpacked content."""

    name: str
    sha256: str
    size: int
    url: str  # where it can be fetched, plain or as .gz; "": it was made from others' files
    folder: str = ""  # the folder it lies in; "" for the one named like the corpus
    compressed_size: int = 0  # bytes of what is fetched, where the address is that of a .gz


@dataclass(frozen=True)
class RowRange:
    """Some of the rows of one file, or of parallel files of plain lines.

    What `first` and `stop` count is said by `by`: rows; the thousand buckets that the sha1 of the
    cell under the header `key` falls into, so that like cells stay together wherever they stand;
    rows in the order of that sha1; or thousandths of the characters of a file that is one text.
    All splits of a file are cut by the same. See `jumok.data.split_rules`.
    """

    files: tuple[str, ...]
    first: int = 0
    stop: int | None = None
    by: SplitBy = "rows"
    key: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)  # where they differ from the corpus's
    format: Format | None = None  # None: the corpus's


@dataclass(frozen=True)
class Corpus:
    """A corpus: what a person should know before using it, and how its rows are read."""

    name: str
    description: str
    licence: str
    url: str
    columns: Mapping[str, str]  # the name tasks use -> the name in the file's header
    files: tuple[CorpusFile, ...] = ()
    splits: Mapping[str, tuple[RowRange, ...]] = field(default_factory=dict)
    generated: Mapping[str, int] = field(default_factory=dict)  # split -> rows made by default
    format: Format = "tsv"
    labels: tuple[str, ...] = ()  # names; a cell holds the name or its number in this list
    tags: tuple[str, ...] = ()  # of the column `tags`
    target_language: str = ""  # of translations: a code such as "de", where scores depend on it
    excluded: tuple[str, ...] = ()  # corpora whose dev and test texts must not be in train
    redistributable: bool = True  # may it be passed on, in a package for instance?

    @property
    def size(self) -> int:
        """Bytes of all files, unpacked; 0 for a corpus that is generated."""
        return sum(file.size for file in self.files)

    @property
    def fetch_command(self) -> str:
        """The command that brings its files here: one without an address is copied in alone."""
        copied = "" if all(file.url for file in self.files) else " --from FOLDER"
        return f"jumok data get {self.name}{copied}"

    def folder(self, file: CorpusFile) -> str:
        """The folder one of its files lies in; corpora that share files share a folder."""
        return file.folder or self.name
