"""Files of text into tables: every row checked, large files parsed once and then mapped."""

import csv
import hashlib
import json
import math
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

import pyarrow as pa

from jumok.data.arrow_cache import cache_folder, cached_table, write_table
from jumok.data.corpora.reviews import QUOTED_TWICE
from jumok.data.files.bad_rows import BadRowCollector, BadRows, OnBadRows, raise_if_any
from jumok.data.files.formats import BIO_TAG, READERS, Format, parallel_rows
from jumok.data.files.lines import (
    MAX_LINE_BYTES,
    Content,
    checksum,
    measure_content,
    quote,
    read_lines,
    suffix,
)
from jumok.data.files.rows import Cell, Row
from jumok.data.table import Table
from jumok.errors import InputError

Labels = Sequence[str] | Mapping[str, str]
Empty = Literal["bad", "keep"]
Rows = Callable[[], Iterator[Row]]

MAX_DOCUMENT_BYTES = 2**28  # of a line where lines mean nothing: one JSON array, one text
MIN_CACHED_BYTES = 2 * 2**20  # bytes of text from which a file is parsed once and then mapped
FORMATS: dict[str, Format] = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".txt": "lines",
}

_VERSION = 5  # to be raised when the same file would be read differently
_BATCH = 8_192  # rows of one Arrow batch


@dataclass(frozen=True)
class _Options:
    """What, beside the bytes of the files, decides which rows a table has."""

    columns: dict[str, str]
    format: str
    labels: dict[str, str]
    lists: tuple[str, ...]
    on_bad_rows: OnBadRows
    empty: Empty
    max_line_bytes: int

    def schema(self) -> pa.Schema:
        def kind(name: str) -> pa.DataType:
            if name == "score":
                return pa.float64()
            return pa.large_list(pa.large_string()) if name in self.lists else pa.large_string()

        return pa.schema([(name, kind(name)) for name in self.columns])


def read_table(
    path: Path | str,
    columns: Sequence[str] | Mapping[str, str],
    *,
    format: Format | None = None,  # noqa: A002 - the word the recipes use
    labels: Labels | None = None,
    lists: Sequence[str] = (),
    on_bad_rows: OnBadRows = "stop",
    empty: Empty = "bad",
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Table:
    r"""The wanted columns of a TSV, CSV, JSON, BIO or text file, also .gz and .xz.

    `columns` are names in the header, or a mapping from the name wanted to that name. The format
    is told by the suffix unless `format` says it. TSV cells are never quoted; the two official
    NSMC files alone, recognised by checksum, have their double quoting undone and keep their
    known empty reviews.

    `labels` are the words the column `label` may hold, or a mapping from each to the name it
    gets; white space around a label, and whether its letters are stored composed, tell none apart.
    Of the column `tags`, whose cells hold a tag for each character of `text`, they are the tags.
    The column `score` holds numbers. The columns in `lists` hold lists of pieces (JSON only).

    A row is bad when a cell is missing or too many, not UTF-8, holds a NUL or half a character, is
    a label not in `labels`, no number under `score`, a tag too many or too few, is empty (unless
    `empty` is "keep"), or its line is longer than `max_line_bytes` (256 MiB where lines mean
    nothing); so is the place where an archive breaks off or grows out of bounds. An archive whose
    own check fails is always refused: any of its rows may be wrong.

    Raises InputError that lists the first ten bad rows when `on_bad_rows` is "stop"; with "skip"
    they are left out and counted in `Table.bad_rows`. Raises StorageError for an unreadable file.

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
        columns=_named(columns),
        format=kind,
        labels=_label_names(labels),
        lists=tuple(lists),
        on_bad_rows=on_bad_rows,
        empty=empty,
        max_line_bytes=max_line_bytes,
    )
    headers = list(options.columns.values())
    in_lists = frozenset(options.columns[name] for name in lists)

    longest = MAX_DOCUMENT_BYTES if kind in ("json", "text") else max_line_bytes

    def rows() -> Iterator[Row]:
        return READERS[kind](path, read_lines(path, longest), headers, in_lists)

    return _table([path], options, rows)


def read_parallel(
    paths: Sequence[Path | str],
    columns: Sequence[str] = ("source", "target"),
    *,
    labels: Labels | None = None,
    on_bad_rows: OnBadRows = "stop",
    empty: Empty = "bad",
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Table:
    """Files of plain lines that say the same, one column for each; also .gz and .xz.

    Labels and bad rows are as in `read_table`. Raises InputError with the counts when the files are
    not equally long.
    """
    files = [Path(path) for path in paths]
    if len(files) != len(columns):
        raise InputError(f"{len(files)} files for {len(columns)} columns; name one file for each")
    options = _Options(
        columns=_named(columns),
        format="parallel",
        labels=_label_names(labels),
        lists=(),
        on_bad_rows=on_bad_rows,
        empty=empty,
        max_line_bytes=max_line_bytes,
    )

    def rows() -> Iterator[Row]:
        return parallel_rows(files, [read_lines(file, max_line_bytes) for file in files])

    return _table(files, options, rows)


def format_of(path: Path) -> Format:
    """The format a file's suffix tells. Raises InputError when it tells none.

    >>> format_of(Path("train.csv.gz"))
    'csv'
    """
    if suffix(path) not in FORMATS:
        raise InputError(
            f"{path}: the suffix tells no format; wanted {', '.join(FORMATS)} (also .gz, .xz): "
            f"rename the file or give one of {', '.join(get_args(Format))}"
        )
    return FORMATS[suffix(path)]


def combined_checksum(checksums: Sequence[str]) -> str:
    """One checksum for one or more files: of a single file, its own."""
    if len(checksums) == 1:
        return checksums[0]
    return hashlib.sha256(" ".join(checksums).encode()).hexdigest()


def _table(paths: Sequence[Path], options: _Options, rows: Rows) -> Table:
    key = [str(_VERSION), json.dumps(asdict(options)), *(checksum(path) for path in paths)]
    kept = cache_folder("tables") / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()}.arrow"
    cached = cached_table(kept)
    if cached is None:
        contents = [measure_content(path) for path in paths]
        reading = _Reading(paths, contents, options, rows)
        if sum(content.size for content in contents) < MIN_CACHED_BYTES:
            return reading.in_memory()
        written = write_table(kept, options.schema(), reading.batches(), reading.note)
        cached = cached_table(kept) if written else None
        if cached is None:
            return _Reading(paths, contents, options, rows).in_memory()
    arrow, note = cached
    told = json.loads(note)
    return Table(
        arrow, BadRowCollector(told["bad"], told["kept"]).report(_texts(paths)), told["sha256"]
    )


class _Reading:
    """One pass over the files: rows checked, good ones in batches, bad ones counted."""

    def __init__(
        self,
        paths: Sequence[Path],
        contents: Sequence[Content],
        options: _Options,
        rows: Rows,
    ) -> None:
        self.paths = paths
        self.options = options
        self.rows = rows
        self.sha256 = combined_checksum([content.sha256 for content in contents])
        self.official = options.format == "tsv" and self.sha256 in QUOTED_TWICE
        self.keeps_empty = self.official or options.empty == "keep"
        self.counter = BadRowCollector()

    def in_memory(self) -> Table:
        batches = list(self.batches())
        arrow = pa.Table.from_batches(batches, self.options.schema())
        return Table(arrow, self.bad_rows(), self.sha256)

    def bad_rows(self) -> BadRows:
        return self.counter.report(_texts(self.paths))

    def note(self) -> bytes:
        """What is kept beside the rows: the bad ones and the content's checksum."""
        note = {"bad": self.counter.count, "kept": self.counter.kept, "sha256": self.sha256}
        return json.dumps(note).encode()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The good rows. Raises InputError at the end when bad ones must stop, or none is good."""
        schema = self.options.schema()
        good: list[tuple[Cell, ...]] = []
        any_good = False
        for row in map(self._checked, self.rows()):
            if row.fault:
                self.counter.add(row.line, row.fault, row.file)
                continue
            good.append(row.cells)
            if len(good) == _BATCH:
                yield _batch(good, schema)
                good, any_good = [], True
        if self.options.on_bad_rows == "stop":
            raise_if_any(self.bad_rows())
        if good:
            yield _batch(good, schema)
        elif not any_good:
            found = f": {self.bad_rows()}" if self.counter.count else ""
            raise InputError(f"{self.paths[0]} holds no row that can be used{found}")

    def _checked(self, row: Row) -> Row:
        """The row with its label named, or with what is wrong with its cells."""
        if row.fault:
            return row
        cells = list(row.cells)
        if self.official:
            cells = [_unquoted_twice(cell) for cell in cells]
        named = dict(zip(self.options.columns, cells, strict=True))
        for place, (name, cell) in enumerate(named.items()):
            fault = ""
            if isinstance(cell, float) and name != "score":
                fault = f"{self.options.columns[name]} is no text (seen {quote(str(cell))})"
            elif name == "label" and (self.options.labels or str(cell).strip()):
                label, known = _label(str(cell)), self.options.labels
                cells[place] = known.get(label, label)
                if known and label not in known:
                    wanted = ", ".join(known)
                    fault = f"unknown label {quote(str(cell))}, wanted one of {wanted}"
            elif name == "score":
                number = _number(str(cell))
                cells[place] = number
                if not math.isfinite(number):
                    fault = f"score {quote(str(cell))} is no number"
            elif name == "tags":
                tags = cells[place] = unicodedata.normalize("NFC", str(cell))
                fault = _wrong_tags(tags, named.get("text"), self.options.labels)
            elif not self.keeps_empty and not (cell.strip() if isinstance(cell, str) else cell):
                fault = f"empty {name} (seen {quote(cell) if isinstance(cell, str) else cell})"
            if fault:
                return Row(row.line, fault=fault, file=place if len(self.paths) > 1 else 0)
        return Row(row.line, tuple(cells))


def _number(cell: str) -> float:
    """The number in a cell; NaN when there is none: Python's 4_5 is no number in a file."""
    try:
        return math.nan if "_" in cell else float(cell)
    except ValueError:
        return math.nan


def _wrong_tags(tags: str, text: Cell | None, known: Mapping[str, str]) -> str:
    """What is wrong with the tags of a text, where it was read as well; "" if nothing is.

    >>> _wrong_tags("B-LC I-LC O", "서울 가", {})
    "3 tags for 4 characters (seen 'B-LC I-LC O')"
    """
    cells = tags.split(" ")
    if isinstance(text, str) and len(cells) != len(text):
        return f"{len(cells)} tags for {len(text)} characters (seen {quote(tags)})"
    for tag in cells:
        if known and tag not in known:
            return f"unknown tag {quote(tag)}, wanted one of {', '.join(known)}"
        if not BIO_TAG.fullmatch(tag):
            return f"tag {quote(tag)}, wanted O, B-X or I-X"
    return ""


def _batch(rows: Sequence[tuple[Cell, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(cells, type=t) for cells, t in zip(columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _unquoted_twice(cell: Cell) -> Cell:
    """A cell of the official NSMC files, whose texts with a double quote were quoted twice.

    >>> print(_unquoted_twice('"' * 3 + '그 ' + '"' * 4 + '명작' + '"' * 7))
    그 "명작"
    """
    for _ in range(2):
        if isinstance(cell, str) and cell.startswith('"'):
            cell = next(csv.reader([cell], delimiter="\t"))[0]
    return cell


def _named(columns: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    return dict(columns) if isinstance(columns, Mapping) else {name: name for name in columns}


def _label_names(labels: Labels | None) -> dict[str, str]:
    if labels is None:
        return {}
    named = labels if isinstance(labels, Mapping) else {name: name for name in labels}
    return {_label(cell): name for cell, name in named.items()}


def _label(cell: str) -> str:
    """A label as it is compared: letters composed (NFC), no white space around it.

    >>> _label(unicodedata.normalize("NFD", "긍정 ")) == "긍정"
    True
    """
    return unicodedata.normalize("NFC", cell).strip()


def _texts(paths: Sequence[Path]) -> list[str]:
    return [str(path) for path in paths]
