"""Make the text of the corpus `ko-small` from its sources, and check that it repeats nothing."""

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumok.atomic_io import write_atomically
from jumok.data.config import DataConfig
from jumok.data.corpora.paths import corpus_folders, find_file
from jumok.data.files.lines import Line, read_lines
from jumok.data.load import load_splits
from jumok.data.splits import Splits
from jumok.errors import DataError
from jumok.lab.assemble import Assembly, HeldOut, sample_sentences

SOURCE_FILE = Path(__file__).with_name("korean_sources.toml")


@dataclass(frozen=True)
class TextSource:
    """Texts of one domain and licence: plain files, or the training split of a corpus."""

    name: str
    domain: str
    licence: str
    origin: str
    files: tuple[str, ...] = ()  # FOLDER/NAME, one paragraph or sentence a line
    corpus: str = ""  # a known corpus instead: the texts of its training split
    columns: tuple[str, ...] = ("text",)  # of the corpus, those that are read
    text_columns: tuple[str, ...] = ("text",)  # of those, the Korean ones


def _source(table: dict[str, Any]) -> TextSource:
    fields: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in table.items()
    }
    return TextSource(**fields)


SOURCES = tuple(map(_source, tomllib.loads(SOURCE_FILE.read_text(encoding="utf-8"))["sources"]))

# The corpora whose dev and test sets no text may repeat, with the Korean columns of each.
HELD_OUT: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("nsmc", ("text",), ("text",)),
    ("nsmc-text", ("text",), ("text",)),
    ("ynat", ("text",), ("text",)),
    ("question_pair", ("text", "pair"), ("text", "pair")),
    ("kornli", ("text", "pair"), ("text", "pair")),
    ("korsts", ("text", "pair"), ("text", "pair")),
    ("klue-ner", ("text", "tags"), ("text",)),
    ("chatbot", ("source", "target"), ("source", "target")),
    ("koen", ("source", "target"), ("source",)),
    ("3i4k", ("text",), ("text",)),
    ("hate", ("text",), ("text",)),
    ("novels", ("text",), ("text",)),
)

# Files of evaluation sets that are no corpora, and their fields of text; none: plain lines. The
# sampled sentences repeat none of them; ko-small.txt is older than this list.
EVALUATION_FILES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("klue/klue-sts-v1.1_dev.json", ("sentence1", "sentence2")),
    ("klue/klue-nli-v1.1_dev.json", ("premise", "hypothesis")),
    ("flores/flores-dev.ko", ()),
    ("flores/flores-test.ko", ()),
)


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


def held_out_texts(only: str = "") -> Iterator[str]:
    """The Korean texts of dev and test sets that no training text may repeat, or of one corpus."""
    for name, columns, korean in HELD_OUT:
        if only not in ("", name):
            continue
        splits = load_splits(DataConfig(corpus=name), columns)
        for split in splits.tables:
            if split != "train":
                yield from _texts(splits, split, korean)


def evaluation_texts() -> Iterator[str]:
    """The Korean texts of the evaluation sets that are no corpora of jumok."""
    for file, fields in EVALUATION_FILES:
        content = b"\n".join(
            line.content for line in source_lines("evaluation sets", file)
        ).decode()
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
        for line in source_lines(source.name, file):
            yield line.content.decode()


def source_path(source: str, file: str) -> Path:
    """A file of a source in JUMOK_DATA. Raises DataError where it is missing."""
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
    return path


def source_lines(source: str, file: str) -> Iterator[Line]:
    """The lines of a file of a source. Raises DataError where it is missing or damaged."""
    path = source_path(source, file)
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
