"""Which rows a recipe trains, develops and tests on: a known corpus, or one's own files."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jumok.data.bad_rows import OnBadRows
from jumok.data.cached import cache_folder
from jumok.data.formats import Format
from jumok.data.known import Corpus, CorpusFile, Rows, known_corpus
from jumok.data.readers import FORMATS, combined, read_parallel, read_table
from jumok.data.sources import COMPRESSED, suffix
from jumok.data.table import Table
from jumok.errors import InputError

CLASSIFICATION = ("text", "label")
SEQUENCES = ("source", "target")

Files = str | tuple[str, ...]  # one file, or parallel files of plain lines


@dataclass(frozen=True)
class DataConfig:
    """The `[data]` table of a recipe. Defaults that say nothing take the corpus's own words.

    >>> DataConfig(corpus="nsmc").header("text"), DataConfig(train="my.tsv").header("text")
    ('document', 'text')
    """

    corpus: str = ""  # a known corpus (jumok data list), or "" for the files named here
    train: Files = ""
    dev: Files = ""  # "" takes the last rows of train
    test: Files = ""
    format: Format | None = None  # None: told by the suffix
    text: str = ""  # the header over the text, and so on; "" for the name of the field itself
    label: str = ""
    source: str = ""
    target: str = ""
    pieces: bool = False  # the text is a list of pieces: JSON lines such as {"doc": [...]}
    labels: tuple[str, ...] = ()  # names; cells hold a name or its number here. (): as in train
    on_bad_rows: OnBadRows = "stop"
    train_rows: int = 0  # at most so many rows; 0: all, or as many as a generated corpus makes
    dev_rows: int = 0  # without a dev file 0 takes a tenth of train
    test_rows: int = 0
    seed: int = 0  # of a generated corpus

    def __post_init__(self) -> None:
        if self.corpus:
            known_corpus(self.corpus)
        if self.corpus and (self.train or self.dev or self.test):
            raise InputError(
                f"data names the corpus {self.corpus!r} and files as well; keep one of them"
            )
        for name in ("train_rows", "dev_rows", "test_rows"):
            if getattr(self, name) < 0:
                raise InputError(f"data.{name} = {getattr(self, name)}; wanted 0 (all) or more")

    def header(self, column: str) -> str:
        """What the files call one of the columns `text`, `label`, `source` and `target`."""
        said: str = getattr(self, column)
        if said:
            return said
        if self.corpus:
            return known_corpus(self.corpus).columns.get(column, column)
        return "doc" if self.pieces and column == "text" else column

    def rows(self, split: str) -> int:
        """At most how many rows a split may have; 0 for all."""
        return {"train": self.train_rows, "dev": self.dev_rows}.get(split, self.test_rows)


@dataclass(frozen=True)
class Splits:
    """The tables of a recipe by name, and the names of the labels when there are any."""

    tables: Mapping[str, Table]
    labels: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Table:
        """The table of a split. Raises InputError that names those there are."""
        if name not in self.tables:
            raise InputError(
                f"the data has no {name!r} split; it has {', '.join(self.tables)}: "
                f"name a file with data.{name}"
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


def load_splits(
    config: DataConfig, columns: Sequence[str] = CLASSIFICATION, only: Sequence[str] = ()
) -> Splits:
    """The splits of a recipe, each a table of the given columns; `only` names those wanted.

    `columns` is CLASSIFICATION or SEQUENCES. Labels come out as names. Raises InputError for bad
    rows (unless they are skipped), a corpus that is not there, or data of another kind.

    >>> splits = load_splits(DataConfig(corpus="numbers", test_rows=3), SEQUENCES, only=["test"])
    >>> splits.test.column_names, len(splits.test)
    (('source', 'target'), 3)
    """
    if not config.corpus:
        return _own_splits(config, columns, only)
    corpus = known_corpus(config.corpus)
    _same_kind(corpus, columns)
    if corpus.generated:
        wanted = [name for name in corpus.generated if not only or name in only]
        return Splits({name: _generated(corpus, config, name) for name in wanted})
    labels = (config.labels or corpus.labels) if "label" in columns else ()
    read: dict[tuple[str, ...], Table] = {}
    tables: dict[str, Table] = {}
    for name, rows in corpus.splits.items():
        if only and name not in only:
            continue
        if rows.files not in read:
            read[rows.files] = _corpus_table(corpus, rows, config, columns, labels)
        table = read[rows.files].slice(rows.first, rows.stop)
        tables[name] = _finished(table, name, config)
    return Splits(tables, labels)


def evaluation_table(
    path: Path | str, config: DataConfig, columns: Sequence[str], labels: Sequence[str] = ()
) -> Table:
    """A file to be scored: the recipe's columns, in TSV unless the suffix says CSV or JSON lines.

    `labels` are the names the model knows; a cell holds a name or its number. The official NSMC
    files are recognised by checksum, and their empty reviews are scored like all others.
    """
    path = Path(path)
    kind = FORMATS.get(suffix(path), "tsv")
    return _read(path, config, columns, labels, "tsv" if kind == "lines" else kind)


def corpus_folders(name: str) -> list[Path]:
    """Where the files of a corpus may lie: in JUMOK_DATA's folder, then in the user's cache."""
    named = os.environ.get("JUMOK_DATA")
    return [*([Path(named) / name] if named else []), downloads(name)]


def downloads(name: str) -> Path:
    """Where `jumok data get` puts the files of a corpus."""
    return cache_folder("data") / name


def find_file(folders: Sequence[Path], name: str) -> Path | None:
    """The first of these there is: the file as it is named, .xz or .gz, folder by folder."""
    for folder in folders:
        for ending in ("", *COMPRESSED):
            path = folder / f"{name}{ending}"
            if path.is_file():
                return path
    return None


def label_cells(labels: Sequence[str]) -> dict[str, str]:
    """What a label's cell may hold, with the name it stands for: the name, or its number.

    Names that are numbers themselves stand for themselves alone.

    >>> label_cells(["negative", "positive"])
    {'negative': 'negative', 'positive': 'positive', '0': 'negative', '1': 'positive'}
    """
    named = {name: name for name in labels}
    if any(name.lstrip("-").isdecimal() for name in labels):
        return named
    return named | {str(number): name for number, name in enumerate(labels)}


def _same_kind(corpus: Corpus, columns: Sequence[str]) -> None:
    if not set(columns) <= set(corpus.columns):
        raise InputError(
            f"the corpus {corpus.name!r} holds {' and '.join(corpus.columns)}, the task wants "
            f"{' and '.join(columns)}; choose another corpus or task"
        )


def _generated(corpus: Corpus, config: DataConfig, split: str) -> Table:
    from jumok.data.numbers import generate

    pairs = generate(split, config.rows(split) or corpus.generated[split], config.seed)
    return Table.from_columns(
        {"source": [spoken for spoken, _ in pairs], "target": [written for _, written in pairs]}
    )


def _corpus_table(
    corpus: Corpus,
    rows: Rows,
    config: DataConfig,
    columns: Sequence[str],
    labels: Sequence[str],
) -> Table:
    by_name = {file.name: file for file in corpus.files}
    known = [by_name[name] for name in rows.files]
    paths = [_corpus_file(corpus, file) for file in known]
    table = _read(tuple(map(str, paths)), config, columns, labels, corpus.format)
    if table.sha256 != combined([file.sha256 for file in known]):
        raise InputError(
            f"{paths[0]} is not the official file of the corpus {corpus.name!r}; "
            f"see jumok data verify {corpus.name}"
        )
    return table


def _corpus_file(corpus: Corpus, file: CorpusFile) -> Path:
    folders = corpus_folders(corpus.name)
    path = find_file(folders, file.name)
    if path is None:
        raise InputError(
            f"the corpus {corpus.name!r} is not here (no {file.name} in "
            f"{' or '.join(map(str, folders))}); fetch it with jumok data get {corpus.name}, "
            f"or set JUMOK_DATA to a folder that holds {corpus.name}/"
        )
    return path


def _own_splits(config: DataConfig, columns: Sequence[str], only: Sequence[str]) -> Splits:
    if not config.train:
        raise InputError("the recipe names no data; set data.corpus or data.train")
    with_labels = "label" in columns
    labels = config.labels if with_labels else ()
    train = _read(config.train, config, columns, labels, config.format)
    if with_labels and not labels:
        labels = _found_labels(train)
    files = {"train": config.train, "dev": config.dev, "test": config.test}
    tables = {"train": train} | {
        name: _read(path, config, columns, labels, config.format)
        for name, path in files.items()
        if path and name != "train" and (not only or name in only)
    }
    if not config.dev:
        rows = config.dev_rows or max(1, len(train) // 10)
        if rows >= len(train):
            raise InputError(
                f"{rows} rows of train for dev, and train has {len(train)}; name a data.dev file"
            )
        first = len(train) - rows
        tables |= {"train": train.slice(0, first), "dev": train.slice(first)}
    order = [name for name in files if name in tables and (not only or name in only)]
    return Splits({name: _finished(tables[name], name, config) for name in order}, labels)


def _found_labels(train: Table) -> tuple[str, ...]:
    found = set(train.column("label"))
    if len(found) < 2:
        raise InputError(f"every row of train is labelled {found.pop()!r}; two labels are needed")
    numbers = all(name.isdecimal() for name in found)
    return tuple(sorted(found, key=int) if numbers else sorted(found))


def _read(
    files: Files | Path,
    config: DataConfig,
    columns: Sequence[str],
    labels: Sequence[str],
    format: Format | None,  # noqa: A002 - the word the recipes use
) -> Table:
    paths = files if isinstance(files, tuple) else (files,)
    if len(paths) > 1:
        return read_parallel(paths, columns, on_bad_rows=config.on_bad_rows)
    return read_table(
        paths[0],
        {name: config.header(name) for name in columns},
        format=format,
        labels=label_cells(labels) or None,
        lists=("text",) if config.pieces and "text" in columns else (),
        on_bad_rows=config.on_bad_rows,
    )


def _finished(table: Table, split: str, config: DataConfig) -> Table:
    limit = config.rows(split)
    table = table.slice(0, limit) if limit else table
    return table.without_empty(table.column_names[0]) if split == "train" else table
