"""The splits of one's own files: what is named, and a development split where none is."""

from collections.abc import Sequence

from jumok.data.config import DataConfig
from jumok.data.recipe_files import read_files
from jumok.data.splits import Splits
from jumok.data.splitting import BUCKETS, part_of_text
from jumok.data.table import Table
from jumok.errors import InputError


def own_splits(config: DataConfig, columns: Sequence[str], only: Sequence[str]) -> Splits:
    """The tables of the files that the recipe names; its last training rows stand in for dev."""
    if not config.train:
        raise InputError("the recipe names no data; set data.corpus or data.train")
    headers = {name: config.header(name) for name in columns}
    labels = config.labels if {"label", "tags"} & set(columns) else ()
    train = read_files(config.train, config, headers, labels, config.format)
    if not labels:
        labels = _found_labels(train)
    files = {"train": config.train, "dev": config.dev, "test": config.test}
    tables = {"train": train} | {
        name: read_files(path, config, headers, labels, config.format)
        for name, path in files.items()
        if path and name != "train" and (not only or name in only)
    }
    if not config.dev:
        tables |= _dev_of_train(train, config)
    order = [name for name in files if name in tables and (not only or name in only)]
    return Splits({name: tables[name] for name in order}, labels)


def _dev_of_train(train: Table, config: DataConfig) -> dict[str, Table]:
    """The training rows parted into train and dev: dev gets the last of them."""
    if config.format == "text":
        return {
            "train": part_of_text(train, 0, 900),
            "dev": part_of_text(train, 900, BUCKETS),
        }
    rows = config.dev_rows or max(1, len(train) // 10)
    if rows >= len(train):
        raise InputError(
            f"{rows} rows of train for dev, and train has {len(train)}; name a data.dev file"
        )
    first = len(train) - rows
    return {"train": train.slice(0, first), "dev": train.slice(first)}


def _found_labels(train: Table) -> tuple[str, ...]:
    """The labels or tags of the training rows, in order; () where rows have neither."""
    if "tags" in train.column_names:
        tags = {tag for cell in train.column("tags") for tag in cell.split(" ")} - {"O"}
        return ("O", *sorted(tags, key=lambda tag: (tag[2:], tag)))
    if "label" not in train.column_names:
        return ()
    found = set(train.column("label"))
    if len(found) < 2:
        raise InputError(f"every row of train is labelled {found.pop()!r}; two labels are needed")
    numbers = all(name.isdecimal() for name in found)
    return tuple(sorted(found, key=int) if numbers else sorted(found))
