"""Data given in memory: rows, frames and tables as files that a run keeps."""

import copy
import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jumok.atomic_io import storage_errors, write_atomically
from jumok.config_io import suggest
from jumok.data.config import KEPT_DATA, DataConfig
from jumok.data.table import Table
from jumok.data.table_files import evaluation_table, has_column
from jumok.errors import DataError, InputError, Message
from jumok.processes import is_elastic
from jumok.ranks import is_main_process
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.runs.run import Run

Names = Mapping[str, tuple[str, ...]]  # the names that each column of the task may have


@contextmanager
def kept_data(recipe: Recipe, given: Mapping[str, object], folder: Path) -> Iterator[Recipe]:
    """Context for a training of `recipe` on the `given` splits, which replace those of the recipe.

    A split is a path, or rows in memory, which are written to FOLDER/data as JSON lines, with their
    sha256 in the recipe. They are removed again when the training fails before there is a run.
    Raises InputError for rows without the columns of the task.
    """
    if not given:
        yield recipe
        return
    recipe, files = _with_data(recipe, given, folder / KEPT_DATA)
    if not files or not is_main_process():
        yield recipe
        return
    run = Run(folder)
    if (folder / KEPT_DATA).is_symlink():
        raise InputError(
            "run.folder_is_a_link",
            "{folder} must be a folder of the run, got a link to another place; remove the link, "
            "or train in another folder",
            folder=folder / KEPT_DATA,
        )
    if not is_elastic():  # torchrun repeats the same command after a lost process
        run.check_absent(resumable=True)
    try:
        with storage_errors(f"{folder}: cannot be made"):
            (folder / KEPT_DATA).mkdir(parents=True, exist_ok=True)
        for path, content in files.items():
            write_atomically(path, content)
        yield recipe
    except BaseException:
        if not run.recipe_path.exists():
            shutil.rmtree(folder / KEPT_DATA, ignore_errors=True)
            with suppress(OSError):
                folder.rmdir()  # only if it is empty
        raise


def table_of(
    data: object, recipe: Recipe, labels: Sequence[str], paired: tuple[str, ...] = ()
) -> Table:
    """Data to evaluate, a path or rows in memory, with the columns of the recipe's task.

    Where a row may be a text or a pair, `paired` are the columns of pairs, which are read if the
    data have the column `pair`.
    """
    if isinstance(data, str | os.PathLike):
        pairs = paired and has_column(data, recipe.data, "pair")
        columns = paired if pairs else recipe.columns
        return evaluation_table(data, recipe.data, columns, labels)
    data = list(data) if isinstance(data, Iterator) else data
    config = replace(recipe.data, sha256={})
    pairs = paired and _has_column(data, "pair", len(paired))
    columns = paired if pairs else recipe.columns
    names = _names(recipe.data, columns)
    rows, _ = rows_of(data, names)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "data.jsonl"
        headers = {column: config.header(column) for column in columns}
        path.write_bytes(_json_lines(rows, headers))
        try:
            return evaluation_table(path, config, columns, labels)
        except DataError as error:  # the file is gone when the message is read
            raise DataError(_renamed(error.message, path, "data")) from None


def _renamed(message: Message, path: Path, name: str) -> Message:
    """The message with another name of a file: row 2 is NAME:2."""

    def renamed(value: object) -> object:
        if isinstance(value, Message):
            return _renamed(value, path, name)
        return str(value).replace(str(path), name) if isinstance(value, str | Path) else value

    found = copy.copy(message)
    found.where = message.where.replace(str(path), name)
    found.values = {key: renamed(value) for key, value in message.values.items()}
    return found


def _has_column(data: object, name: str, n_columns: int) -> bool:
    """Whether a frame, a row that is a dict or a row that is a tuple has another column."""
    found = _column_names(data)
    if isinstance(found, Iterable):
        return name in found
    rows = data if isinstance(data, Sequence) and not isinstance(data, str | bytes) else ()
    return any(
        name in row if isinstance(row, Mapping) else _is_row(row) and len(row) == n_columns
        for row in rows
    )


def _is_row(row: object) -> bool:
    return isinstance(row, Sequence) and not isinstance(row, str)


def _column_names(data: Any) -> Any:
    """The names of the columns of a frame, None for rows."""
    found = getattr(data, "column_names", None)
    if found is None and hasattr(data, "to_dict"):
        found = getattr(data, "columns", None)
    return found


def _with_data(
    recipe: Recipe, given: Mapping[str, object], folder: Path
) -> tuple[Recipe, dict[Path, bytes]]:
    """The recipe with the given splits, and the content of the files to write into `folder`."""
    before, columns = recipe.data, recipe.columns
    config = _own_files(before, paired=recipe.paired)
    if before.corpus and "train" not in given:
        raise InputError(
            "run.dev_or_test_without_data",
            "dev and test need data, because the recipe reads the corpus {corpus!r}; give data "
            "as well",
            corpus=before.corpus,
        )
    names = _names(before, columns)
    headers = {column: config.header(column) for column in columns}
    changes: dict[str, Any] = {}
    checksums, files = dict(before.sha256), {}
    for split, data in given.items():
        checksums.pop(split, None)
        if isinstance(data, str | os.PathLike):
            changes[split] = os.fspath(data)
            continue
        rows, labels = rows_of(data, names)
        if labels and split == "train" and not config.labels:
            changes["labels"] = labels
        path = folder / f"{split}.jsonl"
        files[path] = _json_lines(rows, headers)
        checksums[split] = hashlib.sha256(files[path]).hexdigest()
        changes |= {split: str(path), "format": None}
    return replace(recipe, data=replace(config, **changes, sha256=checksums)), files


def _names(config: DataConfig, columns: Sequence[str]) -> Names:
    """The names that each column may have; of tags also those of `datasets`."""
    names: dict[str, tuple[str, ...]] = {
        column: (config.header(column), column) for column in columns
    }
    if "tags" in names:
        names["text"], names["tags"] = (*names["text"], "tokens"), (*names["tags"], "ner_tags")
    return names


def _own_files(config: DataConfig, *, paired: bool) -> DataConfig:
    """The `[data]` table without its corpus, for files with the columns of the task."""
    if not config.corpus:
        return config
    return replace(config, corpus="", extra=(), pair=config.pair or ("pair" if paired else ""))


def rows_of(data: object, names: Names) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Rows in memory as dicts of the task's columns, and the labels of a `datasets` feature.

    `data` is a pandas or polars frame, an Arrow table, a `datasets.Dataset`, or a list of dicts,
    or of tuples in the order of the columns. Raises InputError for anything else.

    >>> rows_of([("좋다", 1)], {"text": ("document", "text"), "label": ("label",)})
    ([{'text': '좋다', 'label': 1}], ())
    """
    found = _column_names(data)
    if isinstance(data, Mapping) or callable(found):
        raise InputError(
            "run.data_of_several_splits",
            "data must be rows or a table, got {type_data} of {map}; give one split, such as "
            'data=splits["train"]',
            type_data=type(data).__name__,
            map=", ".join(map(str, list(data)[:4])) if isinstance(data, Mapping) else "columns",
        )
    if found is not None:
        return _table_rows(data, list(found), names)
    if isinstance(data, bytes) or not isinstance(data, Iterable):
        raise InputError(
            "run.unusable_data",
            "data must be a path, a list of dicts or tuples, a pandas or polars frame, a "
            "datasets.Dataset or an Arrow table, got {type_data}; try data=[(...), ...]",
            type_data=type(data).__name__,
        )
    rows = [_row(row, number, names) for number, row in enumerate(data, start=1)]
    return _not_empty(rows), ()


def _table_rows(
    data: Any, found: list[str], names: Names
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    headers = {column: _header(column, found, names) for column in names}
    for header in headers.values():
        if found.count(header) > 1:
            raise InputError(
                "run.column_twice",
                "the data must have each column that is read once, got {header!r} {count} times; "
                "rename or remove the others",
                header=header,
                count=found.count(header),
            )
    cells = {column: _cells(data[header]) for column, header in headers.items()}
    rows = [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
    features = getattr(data, "features", None)
    label = headers.get("label") or headers.get("labels") or headers.get("tags")
    feature = features.get(label) if isinstance(features, Mapping) else None
    feature = getattr(feature, "feature", feature)  # of a list of labels
    return _not_empty(rows), tuple(getattr(feature, "names", None) or ())


def _cells(column: Any) -> list[Any]:
    """A column of Arrow, pandas, polars or datasets as a list."""
    for method in ("to_pylist", "to_list"):
        if hasattr(column, method):
            return list(getattr(column, method)())
    return list(column)


def _row(row: object, number: int, names: Names) -> dict[str, Any]:
    if isinstance(row, Mapping):
        return {column: row[_header(column, list(row), names, number)] for column in names}
    if isinstance(row, str) and len(names) == 1:
        return {next(iter(names)): row}
    if isinstance(row, str) or not isinstance(row, Sequence) or len(row) != len(names):
        count = f"{len(row)} values" if isinstance(row, list | tuple) else type(row).__name__
        raise InputError(
            "run.bad_row",
            "row {number} of the data must be a dict or {n_names} values ({names}), got {count}; "
            "correct the row",
            number=number,
            n_names=len(names),
            names=", ".join(names),
            count=count,
        )
    return dict(zip(names, row, strict=True))


def _header(column: str, found: Sequence[str], names: Names, number: int = 0) -> str:
    for name in names[column]:
        if name in found:
            return name
    where = f"row {number} of the data" if number else "the data"
    raise InputError(
        "run.no_such_column",
        "{where} must have the column {column!r}, got {map} ({suggest}); rename it, or set "
        "data__{column}",
        where=where,
        column=column,
        map=", ".join(map(str, found)),
        suggest=suggest(column, list(map(str, found))),
    )


def _not_empty(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if not rows:
        raise InputError("run.no_data_rows", "data must have rows, got none; give some")
    return rows


def _json_lines(rows: Iterable[Mapping[str, Any]], headers: Mapping[str, str]) -> bytes:
    """One JSON object a line, under the names that the recipe reads."""
    lines = (
        {headers[column]: _cell(column, value) for column, value in row.items()} for row in rows
    )
    text = "".join(json.dumps(line) + "\n" for line in lines)  # ASCII: any text can be written
    return text.encode()


def _cell(column: str, value: Any) -> str | int | float | list[str] | None:
    """A cell as JSON; a missing value becomes null, which is reported with its row."""
    if type(value).__name__ in ("NAType", "NaTType"):  # of pandas, which need not be installed
        return None
    if hasattr(value, "item") and not isinstance(value, str):  # a number of numpy
        value = value.item()
    if isinstance(value, bool):
        return str(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, list | tuple):
        return [str(piece) for piece in value]
    raise InputError(
        "run.cell_of_other_type",
        "the cells of {column!r} must be texts or numbers, got {type_value}; convert them first",
        column=column,
        type_value=type(value).__name__,
    )
