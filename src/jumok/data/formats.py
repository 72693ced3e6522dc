"""Lines into rows: one function for each format, each telling what is wrong with a row."""

import csv
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Literal, NamedTuple

from jumok.config import nearest
from jumok.data.sources import Line, decoded, shown
from jumok.errors import InputError

Format = Literal["tsv", "csv", "jsonl", "json", "lines", "text", "bio"]
Cell = str | float | list[str]

BIO_COLUMNS = ("id", "text", "tags")
BIO_TAG = re.compile(r"O|[BI]-\S+")

_SURROGATE = re.compile("[\ud800-\udfff]")


class Row(NamedTuple):
    """The wanted cells of a row in the order they were asked for, or why it cannot be used."""

    line: int
    cells: tuple[Cell, ...] = ()
    fault: str = ""
    file: int = 0  # which of several files the fault is in


RowReader = Callable[[Path, Iterator[Line], Sequence[str], frozenset[str]], Iterator[Row]]


def tsv_rows(
    path: Path, lines: Iterator[Line], wanted: Sequence[str], lists: frozenset[str]
) -> Iterator[Row]:
    """Rows of a file with a header line, cells parted by TAB and quotes that mean nothing."""
    _no_lists(path, lists)
    header = _tsv_header(path, lines)
    places = _places(path, header, wanted)
    for line in lines:
        text, fault = _text(line)
        if fault:
            yield Row(line.number, fault=fault)
            continue
        cells = text.split("\t")
        if len(cells) == len(header):
            yield Row(line.number, tuple(cells[place] for place in places))
        else:
            yield Row(line.number, fault=_wrong_count(cells, header, text))


def csv_rows(
    path: Path, lines: Iterator[Line], wanted: Sequence[str], lists: frozenset[str]
) -> Iterator[Row]:
    """Rows of a file with a header row and CSV's quoting; a cell may run over several lines.

    Of a row that breaks off inside a cell every line is told, up to the one that closes the cell.
    """
    _no_lists(path, lists)
    source = _CsvLines(lines)
    reader = csv.reader(source, strict=True)
    header: list[str] = []
    while True:
        line = source.number + 1
        source.inside = False
        try:
            cells = next(reader)
        except StopIteration:
            break
        except (csv.Error, _LineError) as error:
            fault = str(error) if isinstance(error, _LineError) else _not_csv(error)
            if not header:
                raise InputError(f"{path}:{line}: {fault}; correct the header") from error
            yield Row(line, fault=fault)
            further = range(line + 1, source.number + 1)
            for number in chain(further, source.up_to_the_quote() if _breaks(error) else ()):
                yield Row(number, fault=f"a line of the row at line {line}, which has a fault")
            continue
        text = ",".join(cells)
        fault = _unreadable(text)
        if not header:
            header = _checked_header(path, cells, fault)
            places = _places(path, header, wanted)
        elif fault:
            yield Row(line, fault=fault)
        elif len(cells) == len(header):
            yield Row(line, tuple(cells[place] for place in places))
        else:
            yield Row(line, fault=_wrong_count(cells, header, text))
    if not header:
        raise _no_header(path)


def jsonl_rows(
    path: Path, lines: Iterator[Line], wanted: Sequence[str], lists: frozenset[str]
) -> Iterator[Row]:
    """Rows of a file with one JSON object a line; the columns in `lists` hold lists of pieces."""
    for line in lines:
        text, fault = _text(line)
        if fault:
            yield Row(line.number, fault=fault)
            continue
        try:
            row = json.loads(text, object_pairs_hook=_object)
        except (ValueError, RecursionError) as error:
            yield Row(line.number, fault=f"not JSON: {error} (seen {shown(text)})")
            continue
        if isinstance(row, dict):
            yield _from_object(line.number, row, wanted, lists)
        else:
            yield Row(line.number, fault=_no_object(row, text))


def json_rows(
    path: Path, lines: Iterator[Line], wanted: Sequence[str], lists: frozenset[str]
) -> Iterator[Row]:
    """Rows of a file that is one JSON array of objects; the place told is an object's number."""
    parts: list[str] = []
    for line in lines:
        text, fault = _text(line)
        if fault:
            raise InputError(f"{path}:{line.number}: {fault}; correct the file")
        parts.append(text)
    try:
        rows = json.loads("\n".join(parts), object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON: {error}; correct the file") from error
    if not isinstance(rows, list):
        raise InputError(f"{path}: not a JSON array of objects; for one a line name it .jsonl")
    for number, row in enumerate(rows, start=1):
        if isinstance(row, dict):
            yield _from_object(number, row, wanted, lists)
        else:
            yield Row(number, fault=_no_object(row, repr(row)))


def line_rows(
    path: Path, lines: Iterator[Line], wanted: Sequence[str], lists: frozenset[str]
) -> Iterator[Row]:
    """Rows of a file of plain lines: the line is the one column."""
    _no_lists(path, lists)
    if len(wanted) != 1:
        raise InputError(
            f"{path} holds plain lines, one column; {', '.join(wanted)} were wanted: "
            'name a .tsv, .csv or .jsonl file, or say format = "tsv"'
        )
    for line in lines:
        text, fault = _text(line)
        yield Row(line.number, fault=fault) if fault else Row(line.number, (text,))


def text_rows(
    path: Path, lines: Iterator[Line], wanted: Sequence[str], lists: frozenset[str]
) -> Iterator[Row]:
    """The one row of a file that is one text; each of its lines, the last too, ends in a LF."""
    _no_lists(path, lists)
    if len(wanted) != 1:
        raise InputError(f"{path} is read as one text; {', '.join(wanted)} were wanted")
    parts: list[str] = []
    for line in lines:
        text, fault = _text(line)
        if fault:
            yield Row(line.number, fault=fault)
            return
        parts.append(f"{text}\n")
    yield Row(1, ("".join(parts),))


def bio_rows(
    path: Path, lines: Iterator[Line], wanted: Sequence[str], lists: frozenset[str]
) -> Iterator[Row]:
    r"""Sentences of a file with a character, a TAB and its tag on a line, spaces among them.

    An empty line ends a sentence. Its id is that of the last comment `## ID<TAB>...` in it, or
    its number without one. The columns are `id`, `text` and `tags`, of which there is one
    for each character, parted by spaces: `서울 가` has `B-LC I-LC O O`.
    """
    _no_lists(path, lists)
    _places(path, BIO_COLUMNS, wanted)
    for number, sentence in enumerate(_sentences(lines), start=1):
        begin, fault = sentence[0].number, ""
        cells = {"id": str(number), "text": "", "tags": ""}
        tags: list[str] = []
        for line in sentence:
            text, fault = _text(line)
            if not fault and _is_comment(line):
                cells["id"] = text.removeprefix("##").strip().split("\t")[0]
                continue
            character, _, tag = text.partition("\t")
            if not fault and (len(character) != 1 or not BIO_TAG.fullmatch(tag)):
                fault = f"no character with its tag O, B-X or I-X (seen {shown(text)})"
            if fault:
                begin = line.number
                break
            cells["text"] += character
            tags.append(tag)
        cells["tags"] = " ".join(tags)
        yield Row(begin, tuple(cells[name] for name in wanted), fault)


def _sentences(lines: Iterator[Line]) -> Iterator[list[Line]]:
    """The lines between empty ones, when there is more among them than comments."""
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
    """Rows of files of plain lines that say the same in several languages, line by line.

    Raises InputError with all counts when the files are not equally long.
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
        texts = [_text(line) for line in row]
        faults = [(file, fault) for file, (_, fault) in enumerate(texts) if fault]
        if faults:
            yield Row(number, fault=faults[0][1], file=faults[0][0])
        else:
            yield Row(number, tuple(text for text, _ in texts))
    if len(set(counts)) > 1:
        seen = ", ".join(f"{path} has {n:,} lines" for path, n in zip(paths, counts, strict=True))
        raise InputError(f"{seen}; parallel files need equally many: align them first")


READERS: dict[Format, RowReader] = {
    "tsv": tsv_rows,
    "csv": csv_rows,
    "jsonl": jsonl_rows,
    "json": json_rows,
    "lines": line_rows,
    "text": text_rows,
    "bio": bio_rows,
}


class _LineError(ValueError):
    """A line that cannot be handed to the CSV reader."""


class _CsvLines:
    """Text lines for csv.reader; bytes that are not UTF-8 pass as surrogates, found later."""

    def __init__(self, lines: Iterator[Line]) -> None:
        self.lines = lines
        self.number = 0
        self.inside = False  # whether a quote of the row is open where the line ends
        self.lost = False  # whether a line is missing, so that nobody knows of its quotes

    def __iter__(self) -> "_CsvLines":
        return self

    def __next__(self) -> str:
        line = next(self.lines)
        self._note(line)
        if line.fault:
            raise _LineError(line.fault)
        return line.content.decode(errors="surrogateescape") + "\n"

    def up_to_the_quote(self) -> Iterator[int]:
        """The numbers of the lines up to the one that closes the cell; all, if one is missing."""
        while self.inside and (line := next(self.lines, None)):
            self._note(line)
            yield line.number

    def _note(self, line: Line) -> None:
        self.number = line.number
        self.lost |= self.inside and bool(line.fault)
        self.inside = self.lost or self.inside ^ (line.content.count(b'"') % 2 == 1)


def _breaks(error: Exception) -> bool:
    """Whether the CSV reader stopped before it saw where the cell ends."""
    return isinstance(error, _LineError) or "field limit" in str(error)


def _not_csv(error: Exception) -> str:
    if "field limit" in str(error):
        return "a cell of more than 131,072 characters; a quote is probably never closed"
    return f"not CSV: {error}"


def _text(line: Line) -> tuple[str, str]:
    return ("", line.fault) if line.fault else decoded(line.content)


def _tsv_header(path: Path, lines: Iterator[Line]) -> list[str]:
    line = next(lines, None)
    if line is None:
        raise _no_header(path)
    text, fault = _text(line)
    return _checked_header(path, text.split("\t"), fault)


def _no_header(path: Path) -> InputError:
    return InputError(f"{path} is empty, wanted a header line and rows; name another file")


def _checked_header(path: Path, header: list[str], fault: str) -> list[str]:
    if fault:
        raise InputError(f"{path}:1: {fault}; correct the header")
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise InputError(f"{path}:1: two columns are called {twice[0]!r}; rename one")
    return header


def _places(path: Path, header: Sequence[str], wanted: Sequence[str]) -> list[int]:
    composed = [unicodedata.normalize("NFC", name) for name in header]
    places = []
    for name in wanted:
        if unicodedata.normalize("NFC", name) not in composed:
            raise InputError(
                f"{path}:1: no column {name!r} in the header (seen {shown(' | '.join(header))}); "
                f"{nearest(name, header)}"
            )
        places.append(composed.index(unicodedata.normalize("NFC", name)))
    return places


def _no_lists(path: Path, lists: frozenset[str]) -> None:
    if lists:
        raise InputError(f"{path}: only JSON lines hold lists of pieces; name a .jsonl file")


def _wrong_count(cells: Sequence[str], header: Sequence[str], text: str) -> str:
    if not text:
        return f"an empty line, wanted {len(header)} cells"
    seen = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
    return f"{seen}, wanted {len(header)} (seen {shown(text)})"


def _unreadable(text: str) -> str:
    """Why text that may hold escaped bytes cannot be used; "" if it can."""
    return decoded(text.encode(errors="surrogateescape"))[1]


class _Twins(NamedTuple):
    """What stands for a JSON object in which a key comes twice: nobody knows which one counts."""

    key: str


def _object(pairs: list[tuple[str, object]]) -> dict[str, object] | _Twins:
    row = dict(pairs)
    if len(row) == len(pairs):
        return row
    keys = [key for key, _ in pairs]
    return _Twins(next(key for key in row if keys.count(key) > 1))


def _no_object(row: object, text: str) -> str:
    if isinstance(row, _Twins):
        return f"the key {shown(row.key)} comes twice"
    return f"not a JSON object (seen {shown(text)})"


def _from_object(
    line: int, row: dict[str, object], wanted: Sequence[str], lists: frozenset[str]
) -> Row:
    cells: list[Cell] = []
    for name in wanted:
        key = name if name in row else _composed_keys(row).get(unicodedata.normalize("NFC", name))
        if key is None:
            return Row(line, fault=f"no key {name!r} (seen {shown(', '.join(row))})")
        value = row[key]
        if name in lists:
            if not isinstance(value, list) or not all(isinstance(piece, str) for piece in value):
                return Row(line, fault=f"{name} is no list of pieces (seen {shown(repr(value))})")
            cells.append(value)
        elif isinstance(value, str | float):
            cells.append(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            cells.append(str(value))
        else:
            return Row(line, fault=f"{name} is no text (seen {shown(repr(value))})")
        fault = _bad_letters(name, cells[-1])
        if fault:
            return Row(line, fault=fault)
    return Row(line, tuple(cells))


def _composed_keys(row: Iterable[str]) -> dict[str, str]:
    """The keys of an object by their letters composed (NFC), however they are stored."""
    return {unicodedata.normalize("NFC", key): key for key in row}


def _bad_letters(name: str, cell: Cell) -> str:
    text = "".join(cell) if isinstance(cell, list) else str(cell)
    if "\0" in text:
        return f"{name} holds a NUL character (seen {shown(text)})"
    if _SURROGATE.search(text):
        return f"{name} holds half a character, a lone surrogate (seen {shown(text)})"
    return ""
