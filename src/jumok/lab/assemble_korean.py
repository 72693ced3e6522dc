"""Make the text of the corpus `ko-small` from its sources, and check that it repeats nothing."""

import json
from collections.abc import Iterator
from pathlib import Path

from jumok.atomic_io import write_atomically
from jumok.data.config import DataConfig
from jumok.data.corpora.korean_text import EVALUATION_FILES, HELD_OUT, SOURCES, TextSource
from jumok.data.corpora.paths import corpus_folders, find_file
from jumok.data.files.lines import Line, read_lines
from jumok.data.load import load_splits
from jumok.data.splits import Splits
from jumok.errors import DataError
from jumok.lab.assemble import Assembly, HeldOut, sample_sentences


def assemble_korean(path: Path) -> Assembly:
    """Write the text of all sources into one file; the counts of each source.

    The sources are found as corpora are, in JUMOK_DATA and in the user's cache; InputError names
    the first that is missing. The same sources give the same bytes.
    """
    assembly = Assembly(HeldOut(held_out_texts()))
    lines = [
        line for source in SOURCES for line in assembly.keep(source.name, source_texts(source))
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, ("\n".join(lines) + "\n").encode())
    return assembly


def assemble_sentences(path: Path, limit: int) -> Assembly:
    """Write at most `limit` sentences of each source into one file, in a fixed random order.

    They are sentences of what `assemble_korean` writes, whose counts are returned, without those
    of KLUE-STS, KLUE-NLI and FLORES.
    """
    assembly = Assembly(HeldOut([*held_out_texts(), *evaluation_texts()]))
    sampled: dict[bytes, str] = {}
    for source in SOURCES:
        lines = assembly.keep(source.name, source_texts(source))
        sampled |= sample_sentences(lines, limit, assembly.held_out)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, "".join(f"{sampled[key]}\n" for key in sorted(sampled)).encode())
    return assembly


def held_out_texts() -> Iterator[str]:
    """The Korean texts of all dev and test sets that no training text may repeat."""
    for name, columns, korean in HELD_OUT:
        splits = load_splits(DataConfig(corpus=name), columns)
        for split in splits.tables:
            if split != "train":
                yield from _texts(splits, split, korean)


def evaluation_texts() -> Iterator[str]:
    """The Korean texts of the evaluation sets that are no corpora of jumok."""
    for file, fields in EVALUATION_FILES:
        content = b"\n".join(line.content for line in _lines("evaluation sets", file)).decode()
        if not fields:
            yield from content.split("\n")
            continue
        for row in json.loads(content):
            yield from (row[field] for field in fields)


def source_texts(source: TextSource) -> Iterator[str]:
    """The texts of a source, in order."""
    if source.corpus:
        splits = load_splits(DataConfig(corpus=source.corpus), source.columns, only=["train"])
        yield from _texts(splits, "train", source.text_columns)
    for file in source.files:
        for line in _lines(source.name, file):
            yield line.content.decode()


def _lines(source: str, file: str) -> Iterator[Line]:
    """The lines of a file of a source. Raises DataError where it is missing or damaged."""
    folder, _, name = file.rpartition("/")
    path = find_file(corpus_folders(folder), name)
    if path is None:
        raise DataError(
            "data.source_missing",
            "the source {source!r} must be there as {file} (or .xz, .gz); set JUMOK_DATA to "
            "the folder that contains it",
            source=source,
            file=file,
        )
    for line in read_lines(path):
        if line.fault:
            raise DataError(
                "data.damaged_line",
                "{path}:{number}: {fault}; restore the file",
                path=path,
                number=line.number,
                fault=line.fault,
            )
        yield line


def repeated_lines(path: Path, *, evaluation: bool = False) -> list[str]:
    """The lines of a file that repeat a sentence of a dev or test set, or of `evaluation_texts`."""
    held_out = HeldOut([*held_out_texts(), *(evaluation_texts() if evaluation else ())])
    lines = (line.content.decode() for line in read_lines(path))
    return [line for line in lines if held_out.repeated_in(line)]


def _texts(splits: Splits, split: str, columns: tuple[str, ...]) -> Iterator[str]:
    for column in columns:
        for text in splits[split].column(column):
            yield from text.split("\n")
