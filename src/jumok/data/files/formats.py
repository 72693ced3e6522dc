"""Lines into rows: one function for each format, each telling what is wrong with a row."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Literal

from jumok.data.files.csv_rows import csv_rows
from jumok.data.files.json_rows import json_rows, jsonl_rows
from jumok.data.files.lines import Line, quote
from jumok.data.files.rows import (
    Row,
    RowReader,
    cell_count_error,
    check_header,
    column_indices,
    line_text,
    missing_header_error,
    reject_lists,
)
from jumok.errors import InputError

Format = Literal["tsv", "csv", "jsonl", "json", "lines", "text", "bio"]

BIO_COLUMNS = ("id", "text", "tags")
BIO_TAG = re.compile(r"O|[BI]-\S+")


def tsv_rows(
    path: Path, lines: Iterator[Line], wanted: Sequence[str], lists: frozenset[str]
) -> Iterator[Row]:
    """Rows of a file with a header line, cells parted by TAB and quotes that mean nothing."""
    reject_lists(path, lists)
    header = _tsv_header(path, lines)
    places = column_indices(path, header, wanted)
    for line in lines:
        text, fault = line_text(line)
        if fault:
            yield Row(line.number, fault=fault)
            continue
        cells = text.split("\t")
        if len(cells) == len(header):
            yield Row(line.number, tuple(cells[place] for place in places))
        else:
            yield Row(line.number, fault=cell_count_error(cells, header, text))


def _tsv_header(path: Path, lines: Iterator[Line]) -> list[str]:
    line = next(lines, None)
    if line is None:
        raise missing_header_error(path)
    text, fault = line_text(line)
    return check_header(path, text.split("\t"), fault)


def line_rows(
    path: Path, lines: Iterator[Line], wanted: Sequence[str], lists: frozenset[str]
) -> Iterator[Row]:
    """Rows of a file of plain lines: the line is the one column."""
    reject_lists(path, lists)
    if len(wanted) != 1:
        raise InputError(
            f"{path} holds plain lines, one column; {', '.join(wanted)} were wanted: "
            'name a .tsv, .csv or .jsonl file, or say format = "tsv"'
        )
    for line in lines:
        text, fault = line_text(line)
        yield Row(line.number, fault=fault) if fault else Row(line.number, (text,))


def text_rows(
    path: Path, lines: Iterator[Line], wanted: Sequence[str], lists: frozenset[str]
) -> Iterator[Row]:
    """The one row of a file that is one text; each of its lines, the last too, ends in a LF."""
    reject_lists(path, lists)
    if len(wanted) != 1:
        raise InputError(f"{path} is read as one text; {', '.join(wanted)} were wanted")
    parts: list[str] = []
    for line in lines:
        text, fault = line_text(line)
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
    reject_lists(path, lists)
    column_indices(path, BIO_COLUMNS, wanted)
    for number, sentence in enumerate(_sentences(lines), start=1):
        begin, fault = sentence[0].number, ""
        cells = {"id": str(number), "text": "", "tags": ""}
        tags: list[str] = []
        for line in sentence:
            text, fault = line_text(line)
            if not fault and _is_comment(line):
                cells["id"] = text.removeprefix("##").strip().split("\t")[0]
                continue
            character, _, tag = text.partition("\t")
            if not fault and (len(character) != 1 or not BIO_TAG.fullmatch(tag)):
                fault = f"no character with its tag O, B-X or I-X (seen {quote(text)})"
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
        texts = [line_text(line) for line in row]
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
