"""Files read as a recipe's `[data]` says: one's own, a corpus's, and one to be scored."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from jumok.data.config import DataConfig, Files
from jumok.data.corpora.registry import corpus_by_name
from jumok.data.files.formats import Format
from jumok.data.files.lines import read_lines, suffix
from jumok.data.files.tables import FORMATS, read_parallel, read_table
from jumok.data.table import Table


def read_files(
    files: Files | Path,
    config: DataConfig,
    headers: Mapping[str, str],
    labels: Sequence[str],
    format: Format | None,  # noqa: A002 - the word the recipes use
) -> Table:
    """One file, or parallel files, as the recipe's `[data]` says.

    `headers` are those of the columns wanted, `labels` the names that cells hold or number.
    """
    paths = files if isinstance(files, tuple) else (files,)
    cells = label_cells(labels) if "label" in headers else {tag: tag for tag in labels}
    if len(paths) > 1:
        columns = tuple(headers)
        return read_parallel(paths, columns, labels=cells, on_bad_rows=config.on_bad_rows)
    return read_table(
        paths[0],
        headers,
        format=format,
        labels=cells or None,
        lists=("text",) if config.pieces and "text" in headers else (),
        on_bad_rows=config.on_bad_rows,
    )


def evaluation_table(
    path: Path | str, config: DataConfig, columns: Sequence[str], labels: Sequence[str] = ()
) -> Table:
    """A file to be scored: the recipe's columns, in TSV unless the suffix says CSV or JSON.

    Where text alone is wanted, a .txt holds it line by line; a recipe that reads its files as one
    text each has this one read so too. A suffix that says nothing is read as the recipe's own
    files are; so are tags, unless a header names them. `labels` are the names the model knows; a
    cell holds a name or its number. The official NSMC files are recognised by checksum, and their
    empty reviews are scored like all others.
    """
    path = Path(path)
    own = corpus_by_name(config.corpus).format if config.corpus else config.format
    kind = FORMATS.get(suffix(path), own or "tsv")
    headers = {name: config.header(name) for name in columns}
    if kind == "lines":
        kind = "tsv" if len(columns) > 1 else "text" if own == "text" else "lines"
    if own == "bio" and kind == "tsv" and "tags" in headers:
        kind = "tsv" if headers["tags"] in _first_line(path).split("\t") else "bio"
    return read_files(path, config, headers, labels, kind)


def label_cells(labels: Sequence[str]) -> dict[str, str]:
    """What a label's cell may hold, with the name it stands for: the name, or its number.

    Names that are numbers themselves stand for themselves alone.

    >>> label_cells(["negative", "positive"])
    {'negative': 'negative', 'positive': 'positive', '0': 'negative', '1': 'positive'}
    """
    named = {name: name for name in labels}
    if any(name.lstrip("-").isdecimal() for name in labels):
        return named
    return named | {str(number): name for number, name in enumerate(labels)}


def _first_line(path: Path) -> str:
    """The header of a file, if it has one."""
    return next((line.content.decode("utf-8", "replace") for line in read_lines(path)), "")
