"""A known corpus: its files with checksums, and the rows of its splits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # a model of a corpus reads no files
    from jumok.data.files.formats import Format

SplitBy = Literal["rows", "hash", "order", "characters"]


@dataclass(frozen=True)
class CorpusFile:
    """One file of a corpus; checksum and size in bytes are of the decompressed content."""

    name: str
    sha256: str
    size: int
    url: str = ""  # of the file, plain or .gz; "": it is derived from other files
    folder: str = ""  # its folder; "" for the one with the name of the corpus
    compressed_size: int = 0  # bytes of the download, if the URL is a .gz


@dataclass(frozen=True)
class RowRange:
    """A range of rows of one file, or of parallel files of plain lines.

    `by` is the unit of `first` and `stop`: rows; thousand buckets by the sha1 of the cell in the
    column `key`, so that equal cells are in one split; rows sorted by that sha1; or thousandths of
    the characters of a file that is one text. All splits of a file have the same unit. See
    `jumok.data.split_rules`.
    """

    files: tuple[str, ...]
    first: int = 0
    stop: int | None = None
    by: SplitBy = "rows"
    key: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)  # if different from the corpus
    format: "Format | None" = None  # None: the corpus's


@dataclass(frozen=True)
class Corpus:
    """A corpus: description and licence, files, and how its rows are read."""

    name: str
    description: str
    licence: str
    url: str
    columns: Mapping[str, str]  # the name in tasks -> the name in the file's header
    files: tuple[CorpusFile, ...] = ()
    splits: Mapping[str, tuple[RowRange, ...]] = field(default_factory=dict)
    generated: Mapping[str, int] = field(default_factory=dict)  # split -> number of rows by default
    format: "Format" = "tsv"
    labels: tuple[str, ...] = ()  # names; a cell has the name or its index in this list
    tags: tuple[str, ...] = ()  # of the column `tags`
    source_language: str = (
        ""  # of translations: "ko", if text without Korean letters stays as it is
    )
    target_language: str = ""  # of translations: a code such as "de", if scores depend on it
    excluded: tuple[str, ...] = ()  # corpora whose dev and test texts are removed from train
    built: bool = False  # made from public repositories by `jumok data build`
    redistributable: bool = True  # whether a package may contain it

    @property
    def size(self) -> int:
        """Bytes of all files, decompressed; 0 for a generated corpus."""
        return sum(file.size for file in self.files)

    @property
    def fetch_command(self) -> str:
        """The command that downloads, builds or copies its files."""
        if self.built:
            return f"jumok data build {self.name}"
        copied = "" if all(file.url for file in self.files) else " --from FOLDER"
        return f"jumok data get {self.name}{copied}"

    def folder(self, file: CorpusFile) -> str:
        """The folder of one of its files; corpora that share files share a folder."""
        return file.folder or self.name
