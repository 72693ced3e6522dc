"""The splits of one's own files: what is named, and a development split where none is."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from jumok.data.config import DataConfig
from jumok.data.files.bad_rows import BadRows
from jumok.data.files.lines import suffix
from jumok.data.files.tables import FORMATS
from jumok.data.split_rules import N_BUCKETS, slice_text
from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.data.table_files import read_files
from jumok.errors import InputError


def own_splits(config: DataConfig, columns: Sequence[str], only: Sequence[str]) -> Splits:
    """The tables of the files that the recipe names; its last training rows stand in for dev.

    What need not be read is not: neither for `only` the splits wanted, nor for labels that are
    known.
    """
    if not config.train:
        raise InputError("the recipe names no data; set data.corpus or data.train")
    _refuse_tables_side_by_side(config)
    headers = {name: config.header(name) for name in columns}
    labelled = bool({"label", "tags"} & set(columns))
    labels = config.labels if labelled else ()
    wanted = [split for split in ("train", "dev", "test") if not only or split in only]
    parted = not config.dev and "dev" in wanted
    tables: dict[str, Table] = {}
    if "train" in wanted or parted or (labelled and not labels):
        train = read_files(config.train, config, headers, labels, config.format)
        labels = labels or _found_labels(train)
        tables = {"train": train}
        if not config.dev and {"train", "dev"} & set(wanted):
            tables = _dev_of_train(train, config)
    for split, files in (("dev", config.dev), ("test", config.test)):
        if files and split in wanted:
            tables[split] = read_files(files, config, headers, labels, config.format)
    return Splits({name: tables[name] for name in wanted if name in tables}, labels)


def _refuse_tables_side_by_side(config: DataConfig) -> None:
    """Raises InputError for several files of which one is a table: those are plain lines."""
    for split in ("train", "dev", "test"):
        files = getattr(config, split)
        for file in files if isinstance(files, tuple) and len(files) > 1 else ():
            kind = config.format or FORMATS.get(suffix(Path(file)), "lines")
            if kind != "lines":
                raise InputError(
                    f"data.{split} names {len(files)} files, which are plain lines beside each "
                    f"other, one column each, and {file} is read as {kind}; name one file, or "
                    'say data.format = "lines"'
                )


def _dev_of_train(train: Table, config: DataConfig) -> dict[str, Table]:
    """The training rows parted into train and dev: dev gets the last of them."""
    if config.format == "text":
        return {
            "train": slice_text(train, 0, 900),
            "dev": slice_text(train, 900, N_BUCKETS),
        }
    rows = config.dev_rows or max(1, len(train) // 10)
    if rows >= len(train):
        raise InputError(
            f"{rows} rows of train for dev, and train has {len(train)}; name a data.dev file"
        )
    first = len(train) - rows
    dev = replace(train.slice(first), bad_rows=BadRows())  # they are counted once, with train
    return {"train": train.slice(0, first), "dev": dev}


def _found_labels(train: Table) -> tuple[str, ...]:
    """The labels or tags of the training rows, in order; () where rows have neither."""
    if "tags" in train.column_names:
        tags = {tag for cell in train.column("tags") for tag in cell.split(" ")} - {"O"}
        if not tags:
            raise InputError("every character of train is tagged O; a tag to be learnt is needed")
        return ("O", *sorted(tags, key=lambda tag: (tag[2:], tag)))
    if "label" not in train.column_names:
        return ()
    found = set(train.column("label"))
    if len(found) < 2:
        raise InputError(f"every row of train is labelled {found.pop()!r}; two labels are needed")
    numbers = all(name.isdecimal() for name in found)
    return tuple(sorted(found, key=int) if numbers else sorted(found))
