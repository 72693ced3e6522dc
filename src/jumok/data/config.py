"""The `[data]` table of a recipe: its data, and how files are read."""

import glob
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jumok.config_io import check_choices, check_range
from jumok.data.files.formats import Format
from jumok.data.files.rows import OnBadRows
from jumok.errors import DataError
from jumok.unicode_forms import normalize

if TYPE_CHECKING:
    from jumok.data.corpora.corpus import Corpus

Language = Literal["", "ko", "de", "en", "fr"]
DevSplit = Literal["stratified", "last"]
KEPT_DATA = "data"  # the folder in a run for data that were given in memory
Files = str | tuple[str, ...]  # one file, or parallel files of plain lines


@dataclass(frozen=True)
class DataConfig:
    """The `[data]` table of a recipe. Empty column names are those of the corpus.

    >>> DataConfig(corpus="nsmc").header("text"), DataConfig(train="my.tsv").header("text")
    ('document', 'text')
    """

    corpus: str = ""  # a known corpus (jumok data list), or "" for the files below
    train: Files = ""
    dev: Files = ""  # "": rows of train, chosen as `dev_split` says
    test: Files = ""
    folder: str = ""  # relative paths start here; "": the working directory. In runs: from the run
    format: Format | None = None  # None: by the suffix
    extra: tuple[str, ...] = ()  # known corpora whose training rows are added
    text: str = ""  # the name in the header, and so on; "": the name of the field
    pair: str = ""
    label: str = ""
    score: str = ""
    tags: str = ""
    source: str = ""
    target: str = ""
    target_language: Language = ""  # of the target: BLEU is computed on its tokens as well
    pieces: bool = False  # the text is a list of pieces: JSON lines such as {"doc": [...]}
    labels: tuple[str, ...] = ()  # names; cells have a name or its index. (): those in train
    on_bad_rows: OnBadRows = "stop"
    train_rows: int = 0  # the maximum; 0: all, or the default of a generated corpus
    dev_rows: int = 0  # without a dev file, 0 is a tenth of train
    dev_split: DevSplit = "stratified"  # "last": the last rows, as runs before this key have
    test_rows: int = 0
    seed: int = 0  # of a generated corpus, and of the rows that a stratified dev split draws
    sha256: Mapping[str, str] = field(default_factory=dict)  # of the files by split, decompressed

    def __post_init__(self) -> None:
        check_choices(self, "data")
        for name in (*self.extra, *([self.corpus] if self.corpus else [])):
            find_corpus(name)
        if self.corpus and (self.train or self.dev or self.test):
            raise DataError(
                "data.corpus_and_files",
                "data must be a corpus or files, got both ({corpus!r} and files); remove one",
                corpus=self.corpus,
            )
        if self.corpus and self.format:
            raise DataError(
                "data.format_with_corpus",
                "data.format must not be set with a corpus, got {format!r} with {corpus!r}; "
                "remove it",
                format=self.format,
                corpus=self.corpus,
            )
        for name in ("train", "dev", "test"):
            files = getattr(self, name)
            several = isinstance(files, tuple)
            if not several and files.startswith("[") and files.endswith("]"):
                raise DataError(
                    "data.not_files",
                    "data.{name} must be a file, or a list of files in quotes, got {files!r}; "
                    'write \'data.{name}=["a", "b"]\' in single quotes in a shell',
                    name=name,
                    files=files,
                )
            expand = os.path.expanduser
            object.__setattr__(self, name, tuple(map(expand, files)) if several else expand(files))
        object.__setattr__(self, "folder", os.path.expanduser(self.folder))
        labels = tuple(normalize("NFC", label) for label in self.labels)
        if labels and len(set(labels)) < max(len(labels), 2):
            raise DataError(
                "data.too_few_labels",
                "data.labels must be at least two distinct names, got {map}",
                map=", ".join(map(repr, labels)),
            )
        object.__setattr__(self, "labels", labels)
        for name in self.sha256:
            if name not in ("train", "dev", "test"):
                raise DataError(
                    "data.sha256_of_unknown_split",
                    "data.sha256 must be of train, dev or test, got {name}",
                    name=name,
                )
        for name in ("train_rows", "dev_rows", "test_rows"):
            check_range(f"data.{name}", getattr(self, name), "[0, inf)", "; 0 reads all")

    def relocated(self, run: Path) -> "DataConfig":
        """A copy with the paths of the files of a run in the folder `run`, from any directory.

        Files that the run contains are found in it, also after it was moved. Other relative paths
        start at `folder`, which is relative to the run; a file that is not there is looked for in
        the working directory.
        """
        moved: dict[str, Any] = {
            split: str(run / KEPT_DATA / Path(files).name)
            for split in self.sha256
            if isinstance(files := getattr(self, split, ""), str)
            and files
            and (run / KEPT_DATA / Path(files).name).is_file()
        }
        start = run.resolve() / self.folder

        def found(file: str) -> str:
            path = os.path.normpath(start / file)
            return path if os.path.exists(path) or glob.glob(path) else file

        for split in {"train", "dev", "test"} - moved.keys() if self.folder else ():
            moved[split] = _each(getattr(self, split), found)
        return replace(self, **moved, folder="")

    def absolute(self) -> "DataConfig":
        """A copy with absolute paths."""
        start = Path(self.folder).absolute()
        paths: dict[str, Any] = {
            split: _each(getattr(self, split), lambda file: str(start / file))
            for split in ("train", "dev", "test")
        }
        return replace(self, **paths, folder="")

    def paths(self, split: str) -> tuple[Path, ...]:
        """The files of a split; () if it has none.

        >>> len(DataConfig(train=("train.ko", "train.en")).paths("train"))
        2
        """
        return tuple(Path(self.folder) / file for file in _files(getattr(self, split, "")))

    def of_run(self, run: Path) -> "DataConfig":
        """A copy whose relative paths start at a folder that is given relative to `run`."""
        files = [file for split in (self.train, self.dev, self.test) for file in _files(split)]
        if all(Path(file).is_absolute() for file in files):
            return replace(self, folder="")
        start = Path(self.folder).resolve()
        try:
            return replace(self, folder=Path(os.path.relpath(start, run.resolve())).as_posix())
        except ValueError:  # on another drive of Windows
            return replace(self, folder=str(start))

    def header(self, column: str) -> str:
        """The name of a column in the files: of `text`, `label`, `source` and so on."""
        column = "label" if column == "labels" else column  # `labels` of this table are names
        name: str = getattr(self, column)
        if name:
            return name
        if self.corpus:
            return find_corpus(self.corpus).columns.get(column, column)
        return "doc" if self.pieces and column == "text" else column

    @property
    def corpus_columns(self) -> Collection[str]:
        """The columns of the corpus; none for files."""
        return find_corpus(self.corpus).columns if self.corpus else ()

    @property
    def language(self) -> str:
        """The language of the target, "" if unknown.

        >>> DataConfig(corpus="enko").language, DataConfig(target_language="de").language
        ('ko', 'de')
        """
        corpus = find_corpus(self.corpus).target_language if self.corpus else ""
        return self.target_language or corpus

    def rows(self, split: str) -> int:
        """The maximum number of rows of a split; 0 for all."""
        return {"train": self.train_rows, "dev": self.dev_rows}.get(split, self.test_rows)


def _files(files: Files) -> tuple[str, ...]:
    """The files of a split, without empty names."""
    return tuple(file for file in ((files,) if isinstance(files, str) else files) if file)


def _each(files: Files, change: Callable[[str], str]) -> Files:
    """The files of a split with each name changed, but for "" and absolute ones."""
    if isinstance(files, tuple):
        return tuple(str(_each(file, change)) for file in files)
    return change(files) if files and not Path(files).is_absolute() else files


def find_corpus(name: str) -> "Corpus":
    """The corpus with this name. Raises InputError for an unknown one."""
    from jumok.data.corpora.registry import corpus_by_name  # with the catalogue of all corpora

    return corpus_by_name(name)
