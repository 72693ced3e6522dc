"""Which rows a recipe trains, develops and tests on: a known corpus, or one's own files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jumok.data.bad_rows import OnBadRows
from jumok.data.corpus import Corpus, Rows
from jumok.data.finding import corpus_file
from jumok.data.formats import Format
from jumok.data.known import known_corpus
from jumok.data.readers import FORMATS, combined, read_parallel, read_table
from jumok.data.sources import read_lines, suffix
from jumok.data.splitting import BUCKETS, part, part_of_text, places
from jumok.data.table import Table
from jumok.errors import InputError

CLASSIFICATION = ("text", "label")
PAIRS = ("text", "pair", "label")
REGRESSION = ("text", "pair", "score")
SEQUENCES = ("source", "target")
TAGGING = ("text", "tags")  # a tag for each character, parted by spaces: "서울 가", "B-LC I-LC O O"
TEXTS = ("text",)

_KEY = "key"  # the column a corpus is split by, while it is read

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
    extra: tuple[str, ...] = ()  # known corpora whose training rows are learned from as well
    text: str = ""  # the header over the text, and so on; "" for the name of the field itself
    pair: str = ""
    label: str = ""
    score: str = ""
    tags: str = ""
    source: str = ""
    target: str = ""
    target_language: str = ""  # "ko", "de" ...: BLEU is counted over its tokens as well
    pieces: bool = False  # the text is a list of pieces: JSON lines such as {"doc": [...]}
    labels: tuple[str, ...] = ()  # names; cells hold a name or its number here. (): as in train
    on_bad_rows: OnBadRows = "stop"
    train_rows: int = 0  # at most so many rows; 0: all, or as many as a generated corpus makes
    dev_rows: int = 0  # without a dev file 0 takes a tenth of train
    test_rows: int = 0
    seed: int = 0  # of a generated corpus

    def __post_init__(self) -> None:
        for name in (*self.extra, *([self.corpus] if self.corpus else [])):
            known_corpus(name)
        if self.corpus and (self.train or self.dev or self.test):
            raise InputError(
                f"data names the corpus {self.corpus!r} and files as well; keep one of them"
            )
        for name in ("train_rows", "dev_rows", "test_rows"):
            if getattr(self, name) < 0:
                raise InputError(f"data.{name} = {getattr(self, name)}; wanted 0 (all) or more")

    def header(self, column: str) -> str:
        """What the files call one of the columns: `text`, `label`, `source` and so on."""
        said: str = getattr(self, column)
        if said:
            return said
        if self.corpus:
            return known_corpus(self.corpus).columns.get(column, column)
        return "doc" if self.pieces and column == "text" else column

    @property
    def language(self) -> str:
        """The language of what is written, where it was said.

        >>> DataConfig(corpus="enko").language, DataConfig(target_language="de").language
        ('ko', 'de')
        """
        corpus = known_corpus(self.corpus).target_language if self.corpus else ""
        return self.target_language or corpus

    def rows(self, split: str) -> int:
        """At most how many rows a split may have; 0 for all."""
        return {"train": self.train_rows, "dev": self.dev_rows}.get(split, self.test_rows)


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


def load_splits(
    config: DataConfig, columns: Sequence[str] = CLASSIFICATION, only: Sequence[str] = ()
) -> Splits:
    """The splits of a recipe, each a table of the given columns; `only` names those wanted.

    `columns` is one of CLASSIFICATION, PAIRS, REGRESSION, SEQUENCES, TAGGING and TEXTS. Labels
    come out as names, scores as numbers. Raises InputError for bad rows (unless they are
    skipped), a corpus that is not there, or data of another kind.

    >>> splits = load_splits(DataConfig(corpus="numbers", test_rows=3), SEQUENCES, only=["test"])
    >>> splits.test.column_names, len(splits.test)
    (('source', 'target'), 3)
    """
    never = known_corpus(config.corpus).never if config.corpus else ()
    mixed = bool(config.extra or never) and (not only or "train" in only)
    splits = _read_splits(config, columns, () if mixed else only)
    tables = dict(splits.tables)
    if mixed:
        held_out = [table for name, table in tables.items() if name != "train" and config.extra]
        tables["train"] = _with_extra(splits, config, columns, [*held_out, *_kept(never, columns)])
    wanted = [name for name in tables if not only or name in only]
    return Splits({name: _finished(tables[name], name, config) for name in wanted}, splits.labels)


def evaluation_table(
    path: Path | str, config: DataConfig, columns: Sequence[str], labels: Sequence[str] = ()
) -> Table:
    """A file to be scored: the recipe's columns, in TSV unless the suffix says CSV or JSON.

    Where text alone is wanted, a .txt holds it line by line; a recipe that reads its files as one
    text each has this one read so too. A suffix that says nothing is read as the recipe's own
    files are; so are tags, unless a header names them. `labels` are the names the model knows; a
    cell holds a name or its number. The official NSMC files are recognised by checksum, and their
    empty reviews are scored like all others.
    """
    path = Path(path)
    own = known_corpus(config.corpus).format if config.corpus else config.format
    kind = FORMATS.get(suffix(path), own or "tsv")
    headers = {name: config.header(name) for name in columns}
    if kind == "lines":
        kind = "tsv" if len(columns) > 1 else "text" if own == "text" else "lines"
    if own == "bio" and kind == "tsv" and "tags" in headers:
        kind = "tsv" if headers["tags"] in _first_line(path).split("\t") else "bio"
    return _read(path, config, headers, labels, kind)


def _first_line(path: Path) -> str:
    """The header of a file, if it has one."""
    return next((line.content.decode("utf-8", "replace") for line in read_lines(path)), "")


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


def _read_splits(config: DataConfig, columns: Sequence[str], only: Sequence[str]) -> Splits:
    """The splits as the corpus or the files have them, whatever else is to be learned from."""
    if not config.corpus:
        return _own_splits(config, columns, only)
    corpus = known_corpus(config.corpus)
    _same_kind(corpus, columns)
    read = _generated_splits if corpus.generated else _corpus_splits
    return read(corpus, config, columns, only)


def _generated_splits(
    corpus: Corpus, config: DataConfig, columns: Sequence[str], only: Sequence[str]
) -> Splits:
    from jumok.data.numbers import generate

    tables: dict[str, Table] = {}
    for split, rows in corpus.generated.items():
        if only and split not in only:
            continue
        pairs = generate(split, config.rows(split) or rows, config.seed)
        tables[split] = Table.from_columns(
            {name: [pair[SEQUENCES.index(name)] for pair in pairs] for name in columns}
        )
    return Splits(tables)


def _corpus_splits(
    corpus: Corpus, config: DataConfig, columns: Sequence[str], only: Sequence[str]
) -> Splits:
    labels: tuple[str, ...] = ()
    if "label" in columns:
        labels = config.labels or corpus.labels
    elif "tags" in columns:
        labels = config.labels or corpus.tags
    read: dict[tuple[str, ...], tuple[Table, NDArray[np.int64]]] = {}
    tables: dict[str, Table] = {}
    for name, parts in corpus.splits.items():
        if only and name not in only:
            continue
        for rows in parts:
            if rows.files not in read:
                table = _corpus_table(corpus, rows, config, columns, labels)
                key = _KEY if _KEY in table.column_names else columns[0]
                keys = table.column(key) if rows.key else ()
                read[rows.files] = table.select(columns), places(keys, rows.by)
        chosen = [part(read[rows.files][0], rows, read[rows.files][1]) for rows in parts]
        tables[name] = Table.concatenated(chosen)
    return Splits(tables, labels)


def _corpus_table(
    corpus: Corpus,
    rows: Rows,
    config: DataConfig,
    columns: Sequence[str],
    labels: Sequence[str],
) -> Table:
    by_name = {file.name: file for file in corpus.files}
    known = [by_name[name] for name in rows.files]
    paths = [corpus_file(corpus, file) for file in known]
    headers = {name: rows.columns.get(name) or config.header(name) for name in columns}
    if rows.key and rows.key != headers[columns[0]]:
        headers[_KEY] = rows.key
    table = _read(
        tuple(map(str, paths)),
        config,
        headers,
        labels,
        rows.format or corpus.format,
        spellings=corpus.spellings,
    )
    if table.sha256 != combined([file.sha256 for file in known]):
        raise InputError(
            f"{paths[0]} is not the official file of the corpus {corpus.name!r}; "
            f"see jumok data verify {corpus.name}"
        )
    return table


def _own_splits(config: DataConfig, columns: Sequence[str], only: Sequence[str]) -> Splits:
    if not config.train:
        raise InputError("the recipe names no data; set data.corpus or data.train")
    headers = {name: config.header(name) for name in columns}
    labels = config.labels if {"label", "tags"} & set(columns) else ()
    train = _read(config.train, config, headers, labels, config.format)
    if not labels:
        labels = _found_labels(train)
    files = {"train": config.train, "dev": config.dev, "test": config.test}
    tables = {"train": train} | {
        name: _read(path, config, headers, labels, config.format)
        for name, path in files.items()
        if path and name != "train" and (not only or name in only)
    }
    if not config.dev:
        tables |= _dev_of_train(train, config)
    order = [name for name in files if name in tables and (not only or name in only)]
    return Splits({name: tables[name] for name in order}, labels)


def _dev_of_train(train: Table, config: DataConfig) -> dict[str, Table]:
    """The training rows parted into train and dev: dev gets the last of them."""
    if config.format == "text":
        return {
            "train": part_of_text(train, 0, 900),
            "dev": part_of_text(train, 900, BUCKETS),
        }
    rows = config.dev_rows or max(1, len(train) // 10)
    if rows >= len(train):
        raise InputError(
            f"{rows} rows of train for dev, and train has {len(train)}; name a data.dev file"
        )
    first = len(train) - rows
    return {"train": train.slice(0, first), "dev": train.slice(first)}


def _found_labels(train: Table) -> tuple[str, ...]:
    """The labels or tags of the training rows, in order; () where rows have neither."""
    if "tags" in train.column_names:
        tags = {tag for cell in train.column("tags") for tag in cell.split(" ")} - {"O"}
        return ("O", *sorted(tags, key=lambda tag: (tag[2:], tag)))
    if "label" not in train.column_names:
        return ()
    found = set(train.column("label"))
    if len(found) < 2:
        raise InputError(f"every row of train is labelled {found.pop()!r}; two labels are needed")
    numbers = all(name.isdecimal() for name in found)
    return tuple(sorted(found, key=int) if numbers else sorted(found))


def _with_extra(
    splits: Splits, config: DataConfig, columns: Sequence[str], held_out: Sequence[Table]
) -> Table:
    """The training rows and those of the extra corpora, but none whose text is held out."""
    tables = [splits.train]
    for name in config.extra:
        extra = load_splits(DataConfig(corpus=name), columns, only=["train"])
        if not set(extra.labels) <= set(splits.labels):
            raise InputError(
                f"the extra corpus {name!r} has the labels {', '.join(extra.labels)}, the data "
                f"have {', '.join(splits.labels)}; leave it out"
            )
        tables.append(extra.train)
    train = Table.concatenated(tables)
    first = columns[0]
    return train.without(first, [text for table in held_out for text in table.column(first)])


def _kept(corpora: Sequence[str], columns: Sequence[str]) -> Iterator[Table]:
    """The dev and test rows of other corpora, from which nothing may be learned."""
    for name in corpora:
        splits = load_splits(DataConfig(corpus=name), columns, only=["dev", "test"])
        yield from splits.tables.values()


def _read(
    files: Files | Path,
    config: DataConfig,
    headers: Mapping[str, str],
    labels: Sequence[str],
    format: Format | None,  # noqa: A002 - the word the recipes use
    spellings: Mapping[str, str] | None = None,
) -> Table:
    paths = files if isinstance(files, tuple) else (files,)
    if len(paths) > 1:
        return read_parallel(paths, tuple(headers), on_bad_rows=config.on_bad_rows)
    cells = label_cells(labels) if "label" in headers else {tag: tag for tag in labels}
    if labels and spellings:
        cells |= {odd: cells[cell] for odd, cell in spellings.items()}
    return read_table(
        paths[0],
        headers,
        format=format,
        labels=cells or None,
        lists=("text",) if config.pieces and "text" in headers else (),
        on_bad_rows=config.on_bad_rows,
    )


def _finished(table: Table, split: str, config: DataConfig) -> Table:
    limit = config.rows(split)
    table = table.slice(0, limit) if limit else table
    return table.without_empty(table.column_names[0]) if split == "train" else table
