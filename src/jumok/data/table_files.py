"""Read files by the `[data]` table of a recipe: data of the recipe, or a file to evaluate."""

import os
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from jumok.data.config import DataConfig, Files
from jumok.data.corpora.registry import corpus_by_name
from jumok.data.files.formats import READERS, Format
from jumok.data.files.labels import label_cells
from jumok.data.files.lines import read_lines, suffix
from jumok.data.files.tables import FORMATS, read_parallel, read_table
from jumok.data.table import Table
from jumok.errors import DataError

MAX_SEARCHED = 1_000  # rows in which an optional column is looked for


def read_files(
    files: Files | Path,
    config: DataConfig,
    headers: Mapping[str, str],
    labels: Sequence[str],
    format: Format | None,  # noqa: A002 - the key of recipes
    skip_with: str = "data.on_bad_rows=skip",
    numbered: Sequence[str] | None = None,
) -> Table:
    """One file, or parallel files, with the options of the recipe's `[data]`.

    `headers` are the names of the columns in the file; cells have one of `labels` or its index in
    `numbered`, by default `labels`; () if nothing states an order.
    `skip_with` is what a user sets to skip bad rows.
    """
    paths = files if isinstance(files, tuple) else (files,)
    cells = (
        label_cells(labels, numbered)
        if {"label", "labels"} & set(headers)
        else {tag: tag for tag in labels}
    )
    if len(paths) > 1:
        columns = tuple(headers)
        return read_parallel(
            paths, columns, labels=cells, on_bad_rows=config.on_bad_rows, skip_with=skip_with
        )
    return read_table(
        paths[0],
        headers,
        format=format,
        labels=cells or None,
        lists=("text",) if config.pieces and "text" in headers else (),
        on_bad_rows=config.on_bad_rows,
        skip_with=skip_with,
    )


def evaluation_table(
    path: Path | str | os.PathLike[str],
    config: DataConfig,
    columns: Sequence[str],
    labels: Sequence[str] = (),
) -> Table:
    """A file to evaluate: the recipe's columns, in TSV unless the suffix is that of CSV or JSON.

    For a column of texts only, a .txt is read line by line, or as one text if the recipe's files
    are. A file with another suffix has the format of the recipe's files; so have tags, unless the
    header contains them. `labels` are the model's labels; a cell has a label, or its index where
    the recipe, a corpus or an imported model states their order. The official NSMC files are
    recognised by checksum, and their empty reviews are scored.
    """
    path = Path(path)
    recipe_format = corpus_by_name(config.corpus).format if config.corpus else config.format
    headers = {name: config.header(name) for name in columns}
    kind = _format(path, recipe_format, columns)
    if recipe_format == "bio" and kind == "tsv" and "tags" in headers:
        kind = "tsv" if headers["tags"] in _first_line(path).split("\t") else "bio"
    numbered = _stated_order(config, labels)
    return read_files(path, config, headers, labels, kind, skip_with="", numbered=numbered)


def has_column(path: str | os.PathLike[str], config: DataConfig, column: str) -> bool:
    """Whether a file to evaluate has a column that its task need not have: `pair`.

    Of JSON lines, the first rows decide. Raises InputError or StorageError for an unreadable file.
    """
    path = Path(path)
    kind = _format(path, config.format, ("text", column))
    try:
        rows = READERS[kind](path, read_lines(path), [config.header(column)], frozenset())
        return any(not row.fault and not row.blank for row in islice(rows, MAX_SEARCHED))
    except DataError as error:
        if error.code == "file.no_column_header":
            return False
        raise


def _format(path: Path, recipe_format: Format | None, columns: Sequence[str]) -> Format:
    """The format of a file to evaluate."""
    kind = FORMATS.get(suffix(path), recipe_format or "tsv")
    if kind != "lines":
        return kind
    return "tsv" if len(columns) > 1 else "text" if recipe_format == "text" else "lines"


def _stated_order(config: DataConfig, labels: Sequence[str]) -> Sequence[str]:
    """The labels in the order of the configuration; () if they were found in training rows."""
    if set(config.labels) == set(labels):
        return config.labels
    return () if config.train and not config.corpus else labels


def _first_line(path: Path) -> str:
    """The first line of a file."""
    return next((line.content.decode("utf-8", "replace") for line in read_lines(path)), "")
