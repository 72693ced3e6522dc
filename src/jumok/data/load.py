"""Which rows a recipe trains, develops and tests on: a known corpus, or one's own files."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from jumok.data.config import DataConfig
from jumok.data.corpora.corpus import Corpus, RowRange
from jumok.data.corpora.paths import corpus_file
from jumok.data.corpora.registry import corpus_by_name
from jumok.data.files.tables import combined_checksum
from jumok.data.own_files import own_splits
from jumok.data.split_rules import select_split, split_keys
from jumok.data.splits import CLASSIFICATION, SEQUENCES, Splits
from jumok.data.table import Table
from jumok.data.table_files import read_files
from jumok.errors import InputError

_KEY = "key"  # the column a corpus is split by, while it is read


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
    never = corpus_by_name(config.corpus).excluded if config.corpus else ()
    mixed = bool(config.extra or never) and (not only or "train" in only)
    splits = _read_splits(config, columns, () if mixed else only)
    tables = dict(splits.tables)
    if mixed:
        held_out = [table for name, table in tables.items() if name != "train" and config.extra]
        tables["train"] = _with_extra(splits, config, columns, [*held_out, *_kept(never, columns)])
    wanted = [name for name in tables if not only or name in only]
    return Splits({name: _finished(tables[name], name, config) for name in wanted}, splits.labels)


def _read_splits(config: DataConfig, columns: Sequence[str], only: Sequence[str]) -> Splits:
    """The splits as the corpus or the files have them, whatever else is to be learned from."""
    if not config.corpus:
        return own_splits(config, columns, only)
    corpus = corpus_by_name(config.corpus)
    _same_kind(corpus, columns)
    read = _generated_splits if corpus.generated else _corpus_splits
    return read(corpus, config, columns, only)


def _same_kind(corpus: Corpus, columns: Sequence[str]) -> None:
    if not set(columns) <= set(corpus.columns):
        raise InputError(
            f"the corpus {corpus.name!r} holds {' and '.join(corpus.columns)}, the task wants "
            f"{' and '.join(columns)}; choose another corpus or task"
        )


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
                read[rows.files] = table.select(columns), split_keys(keys, rows.by)
        chosen = [select_split(read[rows.files][0], rows, read[rows.files][1]) for rows in parts]
        tables[name] = Table.concat(chosen)
    return Splits(tables, labels)


def _corpus_table(
    corpus: Corpus,
    rows: RowRange,
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
    table = read_files(
        tuple(map(str, paths)),
        config,
        headers,
        labels,
        rows.format or corpus.format,
    )
    if table.sha256 != combined_checksum([file.sha256 for file in known]):
        raise InputError(
            f"{paths[0]} is not the official file of the corpus {corpus.name!r}; "
            f"see jumok data verify {corpus.name}"
        )
    return table


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
    train = Table.concat(tables)
    first = columns[0]
    return train.without(first, [text for table in held_out for text in table.column(first)])


def _kept(corpora: Sequence[str], columns: Sequence[str]) -> Iterator[Table]:
    """The dev and test rows of other corpora, from which nothing may be learned."""
    for name in corpora:
        splits = load_splits(DataConfig(corpus=name), columns, only=["dev", "test"])
        yield from splits.tables.values()


def _finished(table: Table, split: str, config: DataConfig) -> Table:
    limit = config.rows(split)
    table = table.slice(0, limit) if limit else table
    return table.without_empty(table.column_names[0]) if split == "train" else table
