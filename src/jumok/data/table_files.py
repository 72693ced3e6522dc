"""Read files by the `[data]` table of a recipe: data of the recipe, or a file to evaluate."""

import glob
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from jumok.data.config import DataConfig, Files, find_corpus
from jumok.data.files.formats import READERS, Format
from jumok.data.files.labels import label_cells
from jumok.data.files.lines import read_lines, suffix
from jumok.data.files.rows import MAX_KEPT, BadRows
from jumok.data.files.tables import FORMATS, combined_checksum, read_parallel, read_table
from jumok.data.files.tagged import bio_tag, is_conll_line
from jumok.data.table import Table
from jumok.errors import DataError, Message

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
    cells = label_cells(labels, numbered) if {"label", "labels", "tags"} & set(headers) else {}
    if several := several_files(paths[0]) if len(paths) == 1 else ():
        if len(headers) > 1:
            raise DataError(
                "data.several_files_one_column",
                "{path} must be one file for a task with the columns {columns}, got {n} files; "
                "name one, or join them",
                path=paths[0],
                columns=", ".join(headers),
                n=len(several),
            )
        tables = [
            read_files(path, config, headers, labels, format, skip_with, numbered)
            for path in several
        ]
        return _joined(tables)
    if format is None and "tags" in headers and len(paths) == 1:
        path = Path(paths[0])
        format = _tags_format(path, FORMATS.get(suffix(path), "tsv"), headers["tags"], "conll")  # noqa: A001
    if len(paths) > 1:
        columns = tuple(headers)
        return read_parallel(
            paths, columns, labels=cells, on_bad_rows=config.on_bad_rows, skip_with=skip_with
        )
    try:
        return read_table(
            paths[0],
            headers,
            format=format,
            labels=cells or None,
            lists=("text",) if config.pieces and "text" in headers else (),
            on_bad_rows=config.on_bad_rows,
            skip_with=skip_with,
        )
    except DataError as error:
        if error.code == "file.no_column_header" and skip_with:  # the recipe may name another
            raise DataError(_naming_the_column(error.message, headers)) from error
        raise


# The task that reads a column of this name, where a file lacks those of the recipe's task.
TASK_OF_COLUMN = {
    "score": "regression",
    "labels": "multi_label_classification",
    "tags": "tagging",
    "target": "sequence_to_sequence",
    "label": "classification",
}


def _naming_the_column(message: Message, headers: Mapping[str, str]) -> Message:
    """The message on a missing column with the key that names it, or with the task of the file."""
    column = next(name for name, header in headers.items() if header == message.values["name"])
    names = message.values["names"]
    assert isinstance(names, tuple)
    other = next((name for name in TASK_OF_COLUMN if name in names and name not in headers), "")
    if other and column != "text":
        advice = Message(
            "file.task_of_the_column",
            "for the column {other} set task={task}, or name the column of {column} with "
            "data.{column}=NAME",
            other=other,
            task=TASK_OF_COLUMN[other],
            column=column,
        )
        return Message(message.code, message.template, **message.values | {"suggest": advice})
    advice = Message(
        "file.name_the_column",
        "{suggest}; name the column with data.{column}=NAME",
        suggest=message.values["suggest"],
        column=column,
    )
    return Message(message.code, message.template, **message.values | {"suggest": advice})


def several_files(path: Path | str) -> tuple[Path, ...]:
    """The .txt files of a folder, or the files of a pattern, in the order of their paths.

    () for the path of a file. Raises DataError if there are none.
    """
    name = str(path)
    if os.path.isfile(name) or not (os.path.isdir(name) or set(name) & set("*?[")):
        return ()
    pattern = os.path.join(glob.escape(name), "**", "*.txt") if os.path.isdir(name) else name
    found = sorted(Path(each) for each in glob.glob(pattern, recursive=True))
    files = tuple(each for each in found if each.is_file())
    if not files:
        raise DataError(
            "data.no_such_files",
            "{path} must have files, got none; name a folder with .txt files or a pattern such as "
            "texts/*.txt",
            path=path,
        )
    return files


def _joined(tables: Sequence[Table]) -> Table:
    """The rows of several files, with their checksum and their bad rows."""
    bad = BadRows(sum((tuple(table.bad_rows.files) for table in tables), ()))
    for number, table in enumerate(tables):
        found = table.bad_rows
        bad.count, bad.blank = bad.count + found.count, bad.blank + found.blank
        bad.first += [row._replace(file=number) for row in found.first]
    del bad.first[MAX_KEPT:]
    sha256 = combined_checksum([table.sha256 for table in tables])
    return replace(Table.concat(tables), bad_rows=bad, sha256=sha256)


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
    recipe_format = find_corpus(config.corpus).format if config.corpus else config.format
    headers = {name: config.header(name) for name in columns}
    if several_files(path):
        return read_files(path, config, headers, labels, recipe_format, skip_with="")
    kind = _format(path, recipe_format, columns)
    if "tags" in headers:
        characters = recipe_format == "bio"
        kind = _tags_format(path, kind, headers["tags"], "bio" if characters else "conll")
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
    for stated in (config.labels, tuple(map(bio_tag, config.labels))):
        if set(stated) == set(labels):
            return stated
    return () if config.train and not config.corpus else labels


def _tags_format(path: Path, kind: Format, header: str, other: Format) -> Format:
    """The format of a file of tags: `other` for lines of a word (or character) and its tag."""
    if kind not in ("tsv", "lines"):
        return kind
    lines = (line.content.decode("utf-8", "replace") for line in read_lines(path))
    first = next((text for text in lines if text.strip() and not text.startswith("#")), "")
    if header in first.split("\t"):
        return "tsv"
    return other if is_conll_line(first) else kind
