"""Load the splits of a recipe: those of a known corpus, or of the user's files."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jumok.data.config import DataConfig, find_corpus
from jumok.data.corpora.corpus import Corpus, RowRange
from jumok.data.files.labels import SEPARATOR, combined_label, join_names, split_labels
from jumok.data.files.lines import suffix
from jumok.data.files.rows import BadRows
from jumok.data.files.tables import FORMATS, combined_checksum
from jumok.data.files.tagged import OUTSIDE, bio_tag
from jumok.data.split_rules import N_BUCKETS, select_split, slice_text, split_keys
from jumok.data.splits import CLASSIFICATION, SEQUENCES, Splits
from jumok.data.stratified_split import strata_and_keys, stratified_draw
from jumok.data.table import Table
from jumok.data.table_files import read_files
from jumok.errors import DataError, and_list

_KEY = "key"  # the column by which a corpus is split, during reading


def load_splits(
    config: DataConfig,
    columns: Sequence[str] = CLASSIFICATION,
    only: Sequence[str] = (),
    labels: Sequence[str] = (),
) -> Splits:
    """The splits of a recipe, each a table of the given columns; `only` restricts the splits.

    With `labels`, those of a model, files are checked against them, not those found in train.

    `columns` is one of CLASSIFICATION, MULTI_LABEL, PAIRS, REGRESSION, SEQUENCES, TAGGING and
    TEXTS. Labels are
    names, scores are numbers. Raises InputError for bad rows (unless they are skipped), a missing
    corpus, or data of another task.

    >>> splits = load_splits(DataConfig(corpus="numbers", test_rows=3), SEQUENCES, only=["test"])
    >>> splits.test.column_names, len(splits.test)
    (('source', 'target'), 3)
    """
    excluded = find_corpus(config.corpus).excluded if config.corpus else ()
    mixed = bool(config.extra or excluded) and (not only or "train" in only)
    splits = _read_splits(config, columns, () if mixed else only, labels)
    tables = dict(splits.tables)
    if mixed:
        held_out = [table for name, table in tables.items() if name != "train" and config.extra]
        tables["train"] = _with_extra(
            splits, config, columns, [*held_out, *_held_out(excluded, columns)]
        )
    names = [name for name in tables if not only or name in only]
    return Splits({name: _limited(tables[name], name, config) for name in names}, splits.labels)


def _read_splits(
    config: DataConfig, columns: Sequence[str], only: Sequence[str], labels: Sequence[str]
) -> Splits:
    """The splits of the corpus or of the files, without extra corpora."""
    if not config.corpus:
        return _user_splits(config, columns, only, labels)
    corpus = find_corpus(config.corpus)
    _check_columns(corpus, config, columns)
    read = _generated_splits if corpus.generated else _corpus_splits
    return read(corpus, config, columns, only)


def _check_columns(corpus: Corpus, config: DataConfig, columns: Sequence[str]) -> None:
    """Raise InputError for a column that neither the corpus nor the recipe names."""
    named = () if corpus.generated else [name for name in columns if getattr(config, name)]
    if not set(columns) <= {*corpus.columns, *named}:
        raise DataError(
            "data.corpus_without_columns",
            "the corpus must have the columns of the task ({columns}), got {columns_2} in "
            "{corpus!r}; choose another corpus or task",
            columns=and_list(columns),
            columns_2=and_list(corpus.columns),
            corpus=corpus.name,
        )


def _generated_splits(
    corpus: Corpus, config: DataConfig, columns: Sequence[str], only: Sequence[str]
) -> Splits:
    generate = _generator(corpus.name)
    tables: dict[str, Table] = {}
    for split, rows in corpus.generated.items():
        if only and split not in only:
            continue
        pairs = generate(split, config.rows(split) or rows, config.seed)
        tables[split] = Table.from_columns(
            {name: [pair[SEQUENCES.index(name)] for pair in pairs] for name in columns}
        )
    return Splits(tables)


def _generator(name: str) -> Callable[[str, int, int], list[tuple[str, str]]]:
    """The function that generates the pairs of a split of a generated corpus."""
    if name == "note":
        from jumok.data import note_sentences

        return note_sentences.generate
    from jumok.data import numbers

    return numbers.generate


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
    from jumok.data.corpora.paths import corpus_file  # a recipe of own files needs none

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
        raise DataError(
            "data.not_official_file",
            "{paths} is not the official file of the corpus {corpus!r}; see jumok data verify "
            "{corpus}",
            paths=paths[0],
            corpus=corpus.name,
        )
    return table


def _with_extra(
    splits: Splits, config: DataConfig, columns: Sequence[str], held_out: Sequence[Table]
) -> Table:
    """The training rows and those of the extra corpora, without texts that are held out."""
    tables = [splits.train]
    for name in config.extra:
        extra = load_splits(DataConfig(corpus=name), columns, only=["train"])
        if not set(extra.labels) <= set(splits.labels):
            raise DataError(
                "data.extra_corpus_labels",
                "extra corpora must have the labels {labels}, got {labels_2} in {name!r}; remove "
                "it",
                labels=join_names(splits.labels),
                labels_2=join_names(extra.labels),
                name=name,
            )
        tables.append(extra.train)
    train = Table.concat(tables)
    first = columns[0]
    return train.without(first, [text for table in held_out for text in table.column(first)])


def _held_out(corpora: Sequence[str], columns: Sequence[str]) -> Iterator[Table]:
    """The dev and test rows of other corpora, which must not be in train."""
    for name in corpora:
        splits = load_splits(DataConfig(corpus=name), columns, only=["dev", "test"])
        yield from splits.tables.values()


def _limited(table: Table, split: str, config: DataConfig) -> Table:
    limit = config.rows(split)
    table = table.slice(0, limit) if limit else table
    return table.without_empty(table.column_names[0]) if split == "train" else table


def _user_splits(
    config: DataConfig, columns: Sequence[str], only: Sequence[str], known: Sequence[str]
) -> Splits:
    """The tables of the files in the recipe; without a dev file, dev is a part of train.

    Only the files that are necessary for the splits in `only` and for unknown labels are read.
    """
    if not config.train:
        raise DataError(
            "data.recipe_no_data",
            "the recipe has no data; set data.corpus or data.train",
        )
    config = config.absolute() if config.folder else config
    _check_parallel_files(config)
    headers = {name: config.header(name) for name in columns}
    labelled = bool({"label", "labels", "tags"} & set(columns))
    labels = tuple(known) or config.labels if labelled else ()
    if "tags" in columns:
        labels = tuple(map(bio_tag, labels))
    splits = [split for split in ("train", "dev", "test") if not only or split in only]
    splits_train = not config.dev and "dev" in splits
    tables: dict[str, Table] = {}
    if "train" in splits or splits_train or (labelled and not labels):
        train = _read_split("train", config, headers, labels)
        labels = labels or _labels_of(train)
        tables = {"train": train}
        if not config.dev and {"train", "dev"} & set(splits):
            tables = _split_off_dev(train, config)
    for split, files in (("dev", config.dev), ("test", config.test)):
        if files and split in splits:
            tables[split] = _read_split(split, config, headers, labels)
    return Splits({name: tables[name] for name in splits if name in tables}, labels)


def _read_split(
    split: str, config: DataConfig, headers: Mapping[str, str], labels: Sequence[str]
) -> Table:
    """The file of a split. Raises InputError when its content is not that of `data.sha256`."""
    files = getattr(config, split)
    stated = tuple(map(bio_tag, config.labels)) if "tags" in headers else config.labels
    numbered = stated if set(stated) == set(labels) else ()
    table = read_files(files, config, headers, labels, config.format, numbered=numbered)
    expected = config.sha256.get(split)
    if expected and table.sha256 != expected:
        raise DataError(
            "data.wrong_sha256",
            "{files} must have the sha256 {expected} of data.sha256, got {sha256}; restore the "
            "file",
            files=files,
            expected=expected[:12],
            sha256=table.sha256[:12],
        )
    return table


def _check_parallel_files(config: DataConfig) -> None:
    """Raises InputError for several files if one of them is not plain lines."""
    for split in ("train", "dev", "test"):
        files = getattr(config, split)
        for file in files if isinstance(files, tuple) and len(files) > 1 else ():
            kind = config.format or FORMATS.get(suffix(Path(file)), "lines")
            if kind != "lines":
                raise DataError(
                    "data.several_files_not_plain",
                    "several files in data.{split} must be plain lines, one column each, got "
                    '{file}, which is {kind}; name one file, or set data.format = "lines"',
                    split=split,
                    file=file,
                    kind=kind,
                )


def _split_off_dev(train: Table, config: DataConfig) -> dict[str, Table]:
    """The training rows split into train and dev, as `data.dev_split` says."""
    if config.format == "text" and len(train) == 1:
        return {
            "train": slice_text(train, 0, 900),
            "dev": slice_text(train, 900, N_BUCKETS),
        }
    if len(train) == 1 and train.column_names == ("text",):
        raise DataError(
            "data.one_line",
            "train must have at least two lines, got one; name a data.dev file, or set "
            'data.format = "text" for a file that is one text',
        )
    rows = config.dev_rows or max(1, len(train) // 10)
    if rows >= len(train):
        raise DataError(
            "data.too_many_dev_rows",
            "dev must have fewer rows than train ({n_train}), got {rows}; name a data.dev file",
            n_train=len(train),
            rows=rows,
        )
    if config.dev_split == "last":
        in_dev = np.arange(len(train)) >= len(train) - rows
    else:
        in_dev = stratified_draw(*strata_and_keys(train), rows, config.seed)
    dev = replace(train.keep(in_dev), bad_rows=BadRows())  # counted once, in train
    return {"train": train.keep(~in_dev), "dev": dev}


def _labels_of(train: Table) -> tuple[str, ...]:
    """The labels or tags of the training rows, in order; () if there are none."""
    if "tags" in train.column_names:
        tags = {tag for cell in train.column("tags") for tag in cell.split(" ")} - {"O"}
        if not tags:
            raise DataError(
                "data.no_entities",
                "train must have a tag other than O, got O for every character",
            )
        return (OUTSIDE, *sorted(tags, key=lambda tag: (tag[2:], tag)))
    if "labels" in train.column_names:
        cells = train.column("labels")
        found = {label for cell in cells for label in split_labels(cell)}
        if (combined := combined_label(found)) and not any(SEPARATOR in cell for cell in cells):
            raise DataError(
                "data.labels_separated",
                "the labels of a text must be separated by {separator}, got {combined!r} and no "
                "{separator} in any row; write {joined!r} (a list in JSON), or name data.labels",
                separator=SEPARATOR,
                combined=combined,
                joined=re.sub(r"\s*[,;/]\s*", SEPARATOR, combined),
            )
    elif "label" in train.column_names:
        found = set(train.column("label"))
    else:
        return ()
    if len(found) < 2:
        only = repr(found.pop()) if found else "none"
        raise DataError(
            "data.one_label",
            "train must have at least two labels, got {only} only",
            only=only,
        )
    numbers = all(name.isdecimal() for name in found)
    return tuple(sorted(found, key=int) if numbers else sorted(found))
