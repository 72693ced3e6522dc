"""Read files of text into tables: every row is checked, large files are parsed once and cached."""

import csv
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from jumok.data.arrow_cache import cache_folder, cached_table, write_table
from jumok.data.files.formats import READERS, Format, json_rows, jsonl_rows, parallel_rows
from jumok.data.files.labels import (
    SEPARATOR,
    is_number,
    join_labels,
    join_names,
    label_text,
    split_labels,
)
from jumok.data.files.lines import (
    MAX_LINE_BYTES,
    Content,
    checksum,
    measure_content,
    read_lines,
    suffix,
)
from jumok.data.files.rows import (
    BadRows,
    Cell,
    OnBadRows,
    Row,
    cp949_error,
    not_a_text,
)
from jumok.data.files.tagged import BIO_TAG, TagError, bio_tag, character_tags, tagged_object
from jumok.data.table import Table
from jumok.errors import DataError, Message, join_messages
from jumok.language import translate
from jumok.terminal import counted
from jumok.text_files import Fault, quote
from jumok.unicode_forms import normalize

if TYPE_CHECKING:  # imported where it is used: a prediction for a text needs no tables
    import pyarrow as pa

Labels = Sequence[str] | Mapping[str, str]
Empty = Literal["bad", "keep"]
Rows = Callable[[], Iterator[Row]]

MAX_DOCUMENT_BYTES = 2**28  # of a line in files that are one document: a JSON array, one text
MIN_CACHED_BYTES = 2 * 2**20  # smaller files are parsed every time
FORMATS: dict[str, Format] = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".txt": "lines",
    ".conll": "conll",
    ".iob": "conll",
}

_VERSION = 13  # to be increased when the same file is read or reported differently
_BATCH_ROWS = 8_192  # of one Arrow batch

_JSON_READERS = {"json": json_rows, "jsonl": jsonl_rows}

# The two official NSMC files, whose texts were quoted twice and whose few empty reviews are kept.
DOUBLE_QUOTED_SHA256 = frozenset(
    {
        "e03b7d14e9e41be8d464a28057cd25d7396c53e67aa7fd5f7e552c59b0ee2940",
        "8ac9f64052f11dbf6ae0acb5e038f03d90a76f0eda7820cfb3a92d02edfcebda",
    }
)


@dataclass(frozen=True)
class _Options:
    """The options that decide, with the bytes of the files, which rows a table has."""

    columns: dict[str, str]
    format: str
    labels: dict[str, str]
    lists: tuple[str, ...]
    on_bad_rows: OnBadRows
    empty: Empty = "bad"

    def schema(self) -> "pa.Schema":
        import pyarrow as pa

        def kind(name: str) -> "pa.DataType":
            if name == "score":
                return pa.float64()
            return pa.large_list(pa.large_string()) if name in self.lists else pa.large_string()

        return pa.schema([(name, kind(name)) for name in self.columns])


def read_table(
    path: Path | str,
    columns: Sequence[str] | Mapping[str, str],
    *,
    format: Format | None = None,  # noqa: A002 - the key of recipes
    labels: Labels | None = None,
    lists: Sequence[str] = (),
    on_bad_rows: OnBadRows = "stop",
    skip_with: str = "",
    empty: Empty = "bad",
) -> Table:
    r"""Columns of a TSV, CSV, JSON, CoNLL, BIO or text file, also .gz and .xz.

    `columns` are names in the header, or a mapping from column names to names in the header. The
    suffix decides the format unless `format` is given. TSV cells are never quoted, except in the
    two official NSMC files, recognised by checksum.

    `labels` are the allowed values of the column `label`, or a mapping from values to names; white
    space around a label is ignored, and labels are compared in NFC. A cell of the column `labels`
    has any number of them, separated by "|", or is a list of them in JSON. For the column `tags`,
    whose cells have a tag for each character of `text` or for each word, they are the tags; JSON
    may have entities in the forms of `tagged`. The column `score` has
    numbers, the columns in `lists` have lists of pieces (JSON only).

    A row is bad if it has too few or too many cells or tags, a cell that is not UTF-8, has a NUL or
    a lone surrogate or is empty (unless `empty` is "keep"), an unknown label, a score that is not a
    number, or a line longer than 1 MiB (256 MiB for a file that is one document). The position
    where an archive is truncated or exceeds its limit is a bad row; an archive with a wrong
    checksum is always an error, because any of its rows may be wrong.

    Raises InputError with the first ten bad rows if `on_bad_rows` is "stop"; with "skip" bad rows
    are skipped and counted in `Table.bad_rows`. `skip_with` is what the user sets to skip them.
    Raises StorageError for an unreadable file.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = Path(folder.name) / "reviews.tsv"
    >>> _ = file.write_text("id\tdocument\tlabel\n7\t재밌다\t1\n", encoding="utf-8")
    >>> table = read_table(file, {"text": "document", "label": "label"}, labels={"1": "positive"})
    >>> table.column("text")[0], table.column("label")[0]
    ('재밌다', 'positive')
    >>> folder.cleanup()
    """
    path = Path(path)
    kind = format or format_of(path)
    options = _Options(
        columns=_column_names(columns),
        format=kind,
        labels=_label_names(labels),
        lists=tuple(lists),
        on_bad_rows=on_bad_rows,
        empty=empty,
    )
    headers = list(options.columns.values())
    in_lists = frozenset(options.columns[name] for name in lists)

    max_bytes = MAX_DOCUMENT_BYTES if kind in ("json", "text") else MAX_LINE_BYTES

    reader = READERS[kind]
    if "tags" in options.columns and (json_reader := _JSON_READERS.get(kind)):
        names = options.columns.get("text", "text"), options.columns["tags"]
        reader = partial(json_reader, change=lambda row: tagged_object(row, *names, options.labels))

    def rows() -> Iterator[Row]:
        return reader(path, read_lines(path, max_bytes), headers, in_lists)

    return _table([path], options, rows, skip_with)


def read_parallel(
    paths: Sequence[Path | str],
    columns: Sequence[str] = ("source", "target"),
    *,
    labels: Labels | None = None,
    on_bad_rows: OnBadRows = "stop",
    skip_with: str = "",
) -> Table:
    """Parallel files of plain lines, one column for each file; also .gz and .xz.

    Labels and bad rows are as in `read_table`. Raises InputError with the line counts if these
    differ.
    """
    files = [Path(path) for path in paths]
    if len(files) != len(columns):
        raise DataError(
            "file.file_count",
            "there must be one file for each of {n_columns} columns, got {n_files} files",
            n_columns=len(columns),
            n_files=len(files),
        )
    options = _Options(
        columns=_column_names(columns),
        format="parallel",
        labels=_label_names(labels),
        lists=(),
        on_bad_rows=on_bad_rows,
    )

    def rows() -> Iterator[Row]:
        return parallel_rows(files, [read_lines(file) for file in files])

    return _table(files, options, rows, skip_with)


def format_of(path: Path) -> Format:
    """The format of a file by its suffix. Raises InputError for an unknown suffix.

    >>> format_of(Path("train.csv.gz"))
    'csv'
    """
    if suffix(path) not in FORMATS:
        raise DataError(
            "file.unknown_suffix",
            "the suffix of {path} must be one of {formats} (also .gz, .xz); rename the file or "
            "set the format to one of {format}",
            path=path,
            formats=", ".join(FORMATS),
            format=", ".join(get_args(Format)),
        )
    return FORMATS[suffix(path)]


def combined_checksum(checksums: Sequence[str]) -> str:
    """One checksum for several files; the file's own if there is one."""
    if len(checksums) == 1:
        return checksums[0]
    return hashlib.sha256(" ".join(checksums).encode()).hexdigest()


def _table(paths: Sequence[Path], options: _Options, rows: Rows, skip_with: str) -> Table:
    key = [str(_VERSION), json.dumps(asdict(options)), *(checksum(path) for path in paths)]
    cache_path = (
        cache_folder("tables") / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()}.arrow"
    )
    cached = cached_table(cache_path)
    if cached is None:
        contents = [measure_content(path) for path in paths]
        reader = _Reader(paths, contents, options, rows, skip_with)
        if sum(content.size for content in contents) < MIN_CACHED_BYTES:
            return reader.in_memory()
        written = write_table(cache_path, options.schema(), reader.batches(), reader.metadata)
        cached = cached_table(cache_path) if written else None
        if cached is None:
            return _Reader(paths, contents, options, rows, skip_with).in_memory()
    arrow, metadata, mapping = cached
    stored = json.loads(metadata)
    return Table(
        arrow,
        BadRows(
            _names(paths),
            stored["bad"],
            [Row(line, (), Message.from_json(fault), file) for line, fault, file in stored["kept"]],
            stored["blank"],
        ),
        stored["sha256"],
        mapping,
    )


class _Reader:
    """One pass over the files: good rows in batches, bad ones counted."""

    def __init__(
        self,
        paths: Sequence[Path],
        contents: Sequence[Content],
        options: _Options,
        rows: Rows,
        skip_with: str,
    ) -> None:
        self.paths = paths
        self.skip_with = skip_with
        self.options = options
        self.rows = rows
        self.sha256 = combined_checksum([content.sha256 for content in contents])
        self.official = options.format == "tsv" and self.sha256 in DOUBLE_QUOTED_SHA256
        self.keeps_empty = self.official or options.empty == "keep"
        self.bad_rows = BadRows(_names(paths))
        self.numbers = 0  # cells that are numbers where the labels are names
        self.names = 0  # cells that are names

    def in_memory(self) -> Table:
        import pyarrow as pa

        batches = list(self.batches())
        arrow = pa.Table.from_batches(batches, self.options.schema())
        return Table(arrow, self.bad_rows, self.sha256)

    def metadata(self) -> bytes:
        """The metadata in the cache: bad rows and the checksum of the content."""
        kept = [
            (row.line, row.fault.to_json(), row.file) for row in self.bad_rows.first if row.fault
        ]
        bad = {"bad": self.bad_rows.count, "kept": kept, "blank": self.bad_rows.blank}
        return json.dumps(bad | {"sha256": self.sha256}).encode()

    def batches(self) -> "Iterator[pa.RecordBatch]":
        """The good rows. Raises InputError at the end for bad rows, or if no row is good."""
        schema = self.options.schema()
        good: list[tuple[Cell, ...]] = []
        any_good = False
        for row in map(self._checked, counted(self.rows(), translate("read {n:,} rows"))):
            if row.blank:
                self.bad_rows.blank += 1
                continue
            if row.fault:
                self.bad_rows.add(row)
                continue
            good.append(row.cells)
            if len(good) == _BATCH_ROWS:
                yield _batch(good, schema)
                good, any_good = [], True
        if self.numbers and not self.names:
            self._refuse_numbers()
        if not good and not any_good and self.bad_rows.seem_cp949:
            raise cp949_error(self.paths[0])
        if self.options.on_bad_rows == "stop":
            self.bad_rows.raise_if_any(self.skip_with)
        if good:
            yield _batch(good, schema)
        elif not any_good:
            listed = join_messages("", [":\n", self.bad_rows.listed])
            raise DataError(
                "file.no_usable_row",
                "{paths} has no usable row{found}",
                paths=self.paths[0],
                found=listed if self.bad_rows.count else "",
            )

    def _checked(self, row: Row) -> Row:
        """The row with the name of its label, or with the fault of its cells."""
        if row.fault or row.blank:
            return row
        cells = list(row.cells)
        if self.official:
            cells = [_unquote_twice(cell) for cell in cells]
        named = dict(zip(self.options.columns, cells, strict=True))
        for index, (name, cell) in enumerate(named.items()):
            fault: Fault = ""
            if name == "labels":
                cells[index], fault = _label_set(cell, self.options.labels)
                self._count_numbers(cell if isinstance(cell, list) else split_labels(str(cell)))
            elif isinstance(cell, list) and name not in self.options.lists:
                fault = not_a_text(self.options.columns[name], str(cell))
            elif name == "label" and (self.options.labels or str(cell).strip()):
                label, known = label_text(str(cell)), self.options.labels
                cells[index] = known.get(label, label)
                self._count_numbers([label])
                if known and label not in known:
                    fault = _unknown_label(str(cell), known)
            elif name == "score":
                number = _number(str(cell))
                cells[index] = number
                if not math.isfinite(number):
                    fault = Message(
                        "file.not_a_score", "score {cell} is not a number", cell=quote(str(cell))
                    )
            elif name == "tags":
                cells[index], fault = _tags(str(cell), named.get("text"), self.options.labels)
            elif not self.keeps_empty and not (cell.strip() if isinstance(cell, str) else cell):
                fault = Message(
                    "file.empty_cell",
                    "empty {name} (got {cell})",
                    name=name,
                    cell=quote(cell) if isinstance(cell, str) else str(cell),
                )
            if fault:
                return Row(row.line, fault=fault, file=index if len(self.paths) > 1 else 0)
        return Row(row.line, tuple(cells))

    def _count_numbers(self, labels: Sequence[str]) -> None:
        """Count the labels that are numbers, where all known ones are names."""
        known = self.options.labels
        for label in map(label_text, labels) if known else ():
            if label in known:
                self.names += 1
            elif is_number(label) and not self.numbers_known:
                self.numbers += 1

    @cached_property
    def numbers_known(self) -> bool:
        """Whether a known label is a number."""
        return any(map(is_number, self.options.labels))

    def _refuse_numbers(self) -> None:
        raise DataError(
            "file.labels_are_numbers",
            "{path}: labels must be names ({names}), got numbers, and nothing states which number "
            "is which name; write the names, or set data.labels of the recipe to the names in the "
            "order of 0, 1, ...",
            path=self.paths[0],
            names=join_names(self.options.labels),
        )


def _label_set(cell: Cell, known: Mapping[str, str]) -> tuple[str, Fault]:
    """A cell of any number of labels by their names, and its fault; both may be "".

    >>> _label_set("0| 음악", {"0": "연기", "음악": "음악"})
    ('연기|음악', '')
    >>> print(_label_set("결말", {"0": "연기"})[1])
    unknown label '결말', expected one of 0
    """
    if isinstance(cell, list):
        parts = [label_text(part) for part in cell]
        wrong = [part for part in parts if SEPARATOR in part or not part]
        if wrong:
            return "", Message(
                "file.label_in_list",
                "a label of a list is empty or has a {separator} (got {label})",
                separator=SEPARATOR,
                label=quote(wrong[0]),
            )
        parts = list(dict.fromkeys(parts))
    else:
        parts = [label_text(part) for part in split_labels(str(cell))]
    unknown = [part for part in parts if known and part not in known]
    if unknown:
        return "", _unknown_label(unknown[0], known)
    return join_labels(dict.fromkeys(known.get(part, part) for part in parts)), ""


def _unknown_label(label: str, known: Iterable[str]) -> Message:
    return Message(
        "file.unknown_label",
        "unknown label {label}, expected one of {known}",
        label=quote(label),
        known=join_names(known),
    )


def _number(cell: str) -> float:
    """The number in a cell; NaN if it is not one. 4_5 is a number in Python only."""
    try:
        return math.nan if "_" in cell else float(cell)
    except ValueError:
        return math.nan


def _tags(cell: str, text: Cell | None, known: Mapping[str, str]) -> tuple[str, Fault]:
    """The tags of the characters of a text by their names, and their fault; "" if there is none.

    `text` is None if it is not read.

    >>> _tags("LC-B O", "서울 가", {})
    ('B-LC I-LC O O', '')
    >>> print(_tags("B-LC I-LC O", "서울 가", {})[1])
    3 tags for 4 characters (got 'B-LC I-LC O')
    """
    tags = []
    for tag in normalize("NFC", cell).split(" "):
        name = known.get(tag) or bio_tag(tag)
        if known and name not in known:
            return "", Message(
                "file.unknown_tag",
                "unknown tag {tag}, expected one of {known}",
                tag=quote(tag),
                known=", ".join(known),
            )
        if not BIO_TAG.fullmatch(name):
            return "", Message(
                "file.not_a_tag", "tag {tag}, expected O, B-X or I-X", tag=quote(tag)
            )
        tags.append(name)
    if not isinstance(text, str):
        return " ".join(tags), ""
    try:
        return " ".join(character_tags(text, tags)), ""
    except TagError as error:
        return "", error.message


def _batch(rows: Sequence[tuple[Cell, ...]], schema: "pa.Schema") -> "pa.RecordBatch":
    import pyarrow as pa

    columns = zip(*rows, strict=True)
    arrays = [pa.array(cells, type=t) for cells, t in zip(columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _unquote_twice(cell: Cell) -> Cell:
    """A cell of the official NSMC files, where texts with a double quote are quoted twice.

    >>> print(_unquote_twice('"' * 3 + '그 ' + '"' * 4 + '명작' + '"' * 7))
    그 "명작"
    """
    for _ in range(2):
        if isinstance(cell, str) and cell.startswith('"'):
            cell = next(csv.reader([cell], delimiter="\t"))[0]
    return cell


def _column_names(columns: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    return dict(columns) if isinstance(columns, Mapping) else {name: name for name in columns}


def _label_names(labels: Labels | None) -> dict[str, str]:
    if labels is None:
        return {}
    named = labels if isinstance(labels, Mapping) else {name: name for name in labels}
    return {label_text(cell): name for cell, name in named.items()}


def _names(paths: Sequence[Path]) -> list[str]:
    return [str(path) for path in paths]
