"""Lines to rows: one function for each file format, which reports the fault of every bad row."""

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Literal

from jumok.data.files.lines import Line
from jumok.data.files.rows import (
    Cell,
    Row,
    RowReader,
    cell_count_error,
    check_header,
    column_indices,
    line_text,
    missing_header_error,
    not_a_text,
    reject_lists,
)
from jumok.data.files.tagged import BIO_TAG, TagError, bio_tag, conll_rows
from jumok.errors import DataError, InputError, Message, join_messages
from jumok.text_files import Fault, advice_on, decode_line, quote
from jumok.unicode_forms import normalize

Format = Literal["tsv", "csv", "jsonl", "json", "lines", "text", "bio", "conll"]
Change = Callable[[Mapping[str, Any]], Mapping[str, Any]]  # of a JSON object

BIO_COLUMNS = ("id", "text", "tags")
_SURROGATE = re.compile("[\ud800-\udfff]")


def tsv_rows(
    path: Path, lines: Iterator[Line], columns: Sequence[str], lists: frozenset[str]
) -> Iterator[Row]:
    """Rows of a file with a header line and cells separated by TAB; quotes have no meaning.

    Raises InputError at the end of a file with a column all of whose cells are quoted: it was
    written with the quotes of CSV.
    """
    reject_lists(path, lists)
    header = _tsv_header(path, lines)
    if not set(columns) <= set(header) and {f'"{name}"' for name in columns} <= set(header):
        raise _quoted_error(path, "the header")
    indices = column_indices(path, header, columns)
    quoted, rows = set(indices), 0
    for line in lines:
        text, fault = line_text(line)
        if fault:
            yield Row(line.number, fault=fault)
            continue
        if not text.strip(" "):
            yield Row(line.number, blank=True)
            continue
        cells = text.split("\t")
        if len(cells) == len(header):
            rows += 1
            if quoted:
                quoted = {index for index in quoted if _is_quoted(cells[index])}
            yield Row(line.number, tuple(cells[index] for index in indices))
        else:
            yield Row(line.number, fault=cell_count_error(cells, header, text))
    if quoted and rows > 1:
        raise _quoted_error(path, f"every cell of column {header[min(quoted)]!r}")


def _is_quoted(cell: str) -> bool:
    return len(cell) > 1 and cell[0] == '"' == cell[-1]


def _quoted_error(path: Path, where: str) -> InputError:
    return DataError(
        "file.cells_tsv_not",
        "{path}: cells of TSV must not be quoted, got {where} in double quotes; save the file "
        "without quotes, or as .csv",
        path=path,
        where=where,
    )


def _tsv_header(path: Path, lines: Iterator[Line]) -> list[str]:
    line = next(lines, None)
    if line is None:
        raise missing_header_error(path)
    text, fault = line_text(line)
    return check_header(path, text.split("\t"), fault)


def csv_rows(
    path: Path, lines: Iterator[Line], columns: Sequence[str], lists: frozenset[str]
) -> Iterator[Row]:
    """Rows of a file with a header row and CSV quoting; a cell may have several lines.

    If a row breaks off within a cell, all its lines up to the closing quote are bad rows.
    """
    reject_lists(path, lists)
    source = _CsvLines(lines)
    reader = csv.reader(source, strict=True)
    header: list[str] = []
    while True:
        line = source.number + 1
        source.in_quotes = False
        try:
            cells = next(reader)
        except StopIteration:
            break
        except (csv.Error, _LineError) as error:
            fault: Fault = error.message if isinstance(error, _LineError) else _csv_fault(error)
            if not header:
                check_header(path, header, fault, line)
            yield Row(line, fault=fault)
            further = range(line + 1, source.number + 1)
            rest = source.lines_to_closing_quote() if _breaks_off(error) else ()
            for number in chain(further, rest):
                yield Row(
                    number,
                    fault=Message(
                        "file.part_of_bad_row", "part of the bad row at line {line}", line=line
                    ),
                )
            continue
        if not "".join(cells).strip() and len(cells) < 2:
            if header:
                yield Row(line, blank=True)
            continue
        text = ",".join(cells)
        fault = decode_line(text.encode(errors="surrogateescape"))[1]
        if not header:
            header = check_header(path, cells, fault)
            indices = column_indices(path, header, columns)
        elif fault:
            yield Row(line, fault=fault)
        elif len(cells) == len(header):
            yield Row(line, tuple(cells[index] for index in indices))
        else:
            yield Row(line, fault=cell_count_error(cells, header, text))
    if not header:
        raise missing_header_error(path)


class _LineError(DataError):
    """A line that cannot be given to the CSV reader."""


class _CsvLines:
    """Text lines for csv.reader; invalid UTF-8 is escaped as surrogates and found later."""

    def __init__(self, lines: Iterator[Line]) -> None:
        self.lines = lines
        self.number = 0
        self.in_quotes = False  # whether a quote is open at the end of the line
        self.lost = False  # whether a line within quotes is missing, with unknown quotes in it

    def __iter__(self) -> "_CsvLines":
        return self

    def __next__(self) -> str:
        line = next(self.lines)
        self._track(line)
        if line.fault:
            raise _LineError(join_messages("", [line.fault]))
        return line.content.decode(errors="surrogateescape") + "\n"

    def lines_to_closing_quote(self) -> Iterator[int]:
        """The numbers of the lines up to the closing quote; all if a line is missing."""
        while self.in_quotes and (line := next(self.lines, None)):
            self._track(line)
            yield line.number

    def _track(self, line: Line) -> None:
        self.number = line.number
        self.lost |= self.in_quotes and bool(line.fault)
        self.in_quotes = self.lost or self.in_quotes ^ (line.content.count(b'"') % 2 == 1)


def _breaks_off(error: Exception) -> bool:
    """Whether the CSV reader stopped before the end of the cell."""
    return isinstance(error, _LineError) or "field limit" in str(error)


def _csv_fault(error: Exception) -> Message:
    if "field limit" in str(error):
        return Message(
            "file.cell_too_long",
            "a cell of more than {limit:,} characters; a closing quote is probably missing",
            limit=csv.field_size_limit(),
        )
    return Message("file.not_csv", "not CSV: {error}", error=str(error))


def jsonl_rows(
    path: Path,
    lines: Iterator[Line],
    columns: Sequence[str],
    lists: frozenset[str],
    change: Change | None = None,
) -> Iterator[Row]:
    """Rows of a file with one JSON object per line; the columns in `lists` are lists of pieces.

    `change` is applied to each object first.
    """
    for line in lines:
        text, fault = line_text(line)
        if fault:
            yield Row(line.number, fault=fault)
            continue
        if not text.strip():
            yield Row(line.number, blank=True)
            continue
        try:
            row = json.loads(text, object_pairs_hook=_json_object)
        except (ValueError, RecursionError) as error:
            fault = Message(
                "file.line_not_json",
                "not JSON: {error} (got {text})",
                error=str(error),
                text=quote(text),
            )
            yield Row(line.number, fault=fault)
            continue
        yield _json_row(line.number, row, text, columns, lists, change)


def json_rows(
    path: Path,
    lines: Iterator[Line],
    columns: Sequence[str],
    lists: frozenset[str],
    change: Change | None = None,
) -> Iterator[Row]:
    """Rows of a file that is one JSON array of objects; line numbers are object numbers.

    Files of JSON lines are often named .json too, and read as such.
    """
    kept = list(lines)
    parts: list[str] = []
    for line in kept:
        text, fault = line_text(line)
        if fault:
            raise DataError(
                "file.bad_line",
                "{path}:{number}: {fault}; {advice}",
                path=path,
                number=line.number,
                fault=fault,
                advice=advice_on(fault, Message("file.correct_file", "correct the file")),
            )
        parts.append(text)
    try:
        rows = json.loads("\n".join(parts), object_pairs_hook=_json_object)
    except (ValueError, RecursionError) as error:
        if parts and _is_json_object(parts[0]):
            yield from jsonl_rows(path, iter(kept), columns, lists, change)
            return
        raise DataError(
            "file.not_json",
            "{path}: not JSON: {error}; correct the file",
            path=path,
            error=error,
        ) from error
    if not isinstance(rows, list):
        raise DataError(
            "file.not_json_array",
            "{path}: not a JSON array of objects; name a file of JSON lines .jsonl",
            path=path,
        )
    for number, row in enumerate(rows, start=1):
        yield _json_row(number, row, repr(row), columns, lists, change)


def _joined_pieces(value: object) -> str | None:
    """The text of a list of SentencePiece pieces; None for anything else.

    >>> _joined_pieces(["▁이", "▁영화", "가"]), _joined_pieces(["이", "영화"])
    ('이 영화가', None)
    """
    if not isinstance(value, list) or not all(isinstance(piece, str) for piece in value):
        return None
    text = "".join(value)
    return text.replace("▁", " ").strip() if text.startswith("▁") else None


class _Repeated(dict[str, object]):
    """A JSON object with the keys `twice` more than once, so that their values are ambiguous."""

    twice: frozenset[str] = frozenset()


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _json_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    row = dict(pairs)
    if len(row) == len(pairs):
        return row
    repeated = _Repeated(row)
    repeated.twice = frozenset(k for k, n in Counter(key for key, _ in pairs).items() if n > 1)
    return repeated


def _json_row(
    line: int,
    row: object,
    text: str,
    columns: Sequence[str],
    lists: frozenset[str],
    change: Change | None,
) -> Row:
    if not isinstance(row, dict):
        return Row(
            line,
            fault=Message(
                "file.not_a_json_object", "not a JSON object (got {text})", text=quote(text)
            ),
        )
    try:
        row = change(row) if change else row
    except TagError as error:
        return Row(line, fault=error.message)
    cells: list[Cell] = []
    for name in columns:
        key = name if name in row else _composed_keys(row).get(normalize("NFC", name))
        if key is None and name == "text" and "doc" in row:
            key = "doc"  # the notes write {"doc": pieces, "label": 1}
        if key is None:
            return Row(
                line,
                fault=Message(
                    "file.no_key",
                    "no key {name!r} (got {keys})",
                    name=name,
                    keys=quote(", ".join(row)),
                ),
            )
        if isinstance(row, _Repeated) and key in row.twice:
            return Row(
                line,
                fault=Message("file.key_twice", "the key {key} is not unique", key=quote(key)),
            )
        value = row[key]
        if name in lists:
            if not isinstance(value, list) or not all(isinstance(piece, str) for piece in value):
                return Row(
                    line,
                    fault=Message(
                        "file.not_pieces",
                        "{name} is not a list of pieces (got {value})",
                        name=name,
                        value=quote(repr(value)),
                    ),
                )
            cells.append(value)
        elif (joined := _joined_pieces(value)) is not None:
            cells.append(joined)
        elif isinstance(value, str):
            cells.append(value)
        elif _is_number(value):
            cells.append(str(value))  # as in a file of text
        elif isinstance(value, list) and all(map(_is_label, value)):
            cells.append([str(label) for label in value])  # a list of labels, or a fault later
        else:
            return Row(line, fault=not_a_text(name, repr(value)))
        fault = _character_fault(name, cells[-1])
        if fault:
            return Row(line, fault=fault)
    return Row(line, tuple(cells))


def _is_label(value: object) -> bool:
    return isinstance(value, str) or _is_number(value)


def _is_number(value: object) -> bool:
    """Whether a value of JSON is a finite number, true or false."""
    return isinstance(value, int | float) and math.isfinite(value)


def _composed_keys(row: Iterable[str]) -> dict[str, str]:
    """The keys of an object by their composed form (NFC)."""
    return {normalize("NFC", key): key for key in row}


def _character_fault(name: str, cell: Cell) -> Fault:
    text = "".join(cell) if isinstance(cell, list) else str(cell)
    if "\0" in text:
        return Message(
            "file.nul_in_cell",
            "{name} has a NUL character (got {text})",
            name=name,
            text=quote(text),
        )
    if _SURROGATE.search(text):
        return Message(
            "file.surrogate_in_cell",
            "{name} has a lone surrogate (got {text})",
            name=name,
            text=quote(text),
        )
    return ""


def line_rows(
    path: Path, lines: Iterator[Line], columns: Sequence[str], lists: frozenset[str]
) -> Iterator[Row]:
    """Rows of a file of plain lines, whose one column is the line."""
    reject_lists(path, lists)
    if len(columns) != 1:
        raise DataError(
            "file.plain_lines_have_one_column",
            "{path} is a file of plain lines with one column, expected {columns}; name a .tsv, "
            '.csv or .jsonl file, or set format = "tsv"',
            path=path,
            columns=", ".join(columns),
        )
    for line in lines:
        text, fault = line_text(line)
        if fault:
            yield Row(line.number, fault=fault)
        elif text.strip():
            yield Row(line.number, (text,))
        else:
            yield Row(line.number, blank=True)


def text_rows(
    path: Path, lines: Iterator[Line], columns: Sequence[str], lists: frozenset[str]
) -> Iterator[Row]:
    """The single row of a file that is one text; every line, the last one too, ends in LF."""
    reject_lists(path, lists)
    if len(columns) != 1:
        raise DataError(
            "file.text_file_has_no_columns",
            "{path} is read as one text, expected {columns}",
            path=path,
            columns=", ".join(columns),
        )
    parts: list[str] = []
    for line in lines:
        text, fault = line_text(line)
        if fault:
            yield Row(line.number, fault=fault)
            return
        parts.append(f"{text}\n")
    yield Row(1, ("".join(parts),))


def bio_rows(
    path: Path, lines: Iterator[Line], columns: Sequence[str], lists: frozenset[str]
) -> Iterator[Row]:
    r"""Sentences of a file with a character, a TAB and its tag per line, spaces included.

    An empty line ends a sentence. Its id is that of its last comment `## ID<TAB>...`, else its
    number. The columns are `id`, `text` and `tags`, one tag for each character, separated by
    spaces: `서울 가` has `B-LC I-LC O O`.
    """
    reject_lists(path, lists)
    column_indices(path, BIO_COLUMNS, columns)
    for number, sentence in enumerate(_sentences(lines), start=1):
        first = sentence[0].number
        fault: Fault = ""
        cells = {"id": str(number), "text": "", "tags": ""}
        tags: list[str] = []
        for line in sentence:
            text, fault = line_text(line)
            if not fault and _is_comment(line):
                cells["id"] = text.removeprefix("##").strip().split("\t")[0]
                continue
            character, _, tag = text.partition("\t")
            tag = bio_tag(tag)
            if not fault and (len(character) != 1 or not BIO_TAG.fullmatch(tag)):
                fault = Message(
                    "file.not_a_tagged_character",
                    "not a character with a tag O, B-X or I-X (got {text})",
                    text=quote(text),
                )
            if fault:
                first = line.number
                break
            cells["text"] += character
            tags.append(tag)
        cells["tags"] = " ".join(tags)
        yield Row(first, tuple(cells[name] for name in columns), fault)


def _sentences(lines: Iterator[Line]) -> Iterator[list[Line]]:
    """The groups of lines between empty lines, except groups of comments only."""
    sentence: list[Line] = []
    for line in chain(lines, [Line(0, b"")]):
        if line.content or line.fault:
            sentence.append(line)
            continue
        if not all(map(_is_comment, sentence)):
            yield sentence
        sentence = []


def _is_comment(line: Line) -> bool:
    return line.content.startswith(b"##")


def parallel_rows(paths: Sequence[Path], files: Sequence[Iterator[Line]]) -> Iterator[Row]:
    """Rows of parallel files of plain lines, one file for each column.

    Raises InputError with all line counts if these differ.
    """
    counts = [0] * len(files)
    for number, lines in enumerate(zip_longest(*files), start=1):
        row = [line for line in lines if line is not None]
        broken = [(file, line) for file, line in enumerate(lines) if line and line.last]
        if broken:
            file, line = broken[0]
            yield Row(number, fault=line.fault, file=file)
            return
        counts = [n + (line is not None) for n, line in zip(counts, lines, strict=True)]
        if len(row) < len(lines):
            continue
        texts = [line_text(line) for line in row]
        faults = [(file, fault) for file, (_, fault) in enumerate(texts) if fault]
        if faults:
            yield Row(number, fault=faults[0][1], file=faults[0][0])
        elif any(text.strip() for text, _ in texts):
            yield Row(number, tuple(text for text, _ in texts))
        else:
            yield Row(number, blank=True)
    if len(set(counts)) > 1:
        found = ", ".join(f"{path} has {n:,} lines" for path, n in zip(paths, counts, strict=True))
        raise DataError(
            "file.unequal_line_counts",
            "parallel files must have equally many lines: {found}; align them first",
            found=found,
        )


READERS: dict[Format, RowReader] = {
    "tsv": tsv_rows,
    "csv": csv_rows,
    "jsonl": jsonl_rows,
    "json": json_rows,
    "lines": line_rows,
    "text": text_rows,
    "bio": bio_rows,
    "conll": conll_rows,
}
