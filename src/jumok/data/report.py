"""What the splits of own files contain: labels, repeated rows, blank lines, similar labels."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from jumok.data.config import DataConfig
from jumok.data.contamination import Contamination, contamination, row_hash
from jumok.data.files.labels import SEPARATOR, counted_labels, join_names, similar_labels
from jumok.data.files.lines import encoding_of
from jumok.data.splits import Splits
from jumok.data.stratified_split import inputs_of, ranks
from jumok.data.table import Table
from jumok.data.table_files import several_files
from jumok.errors import Message, join_messages

MAX_LABELS = 10  # in one line


@dataclass(frozen=True)
class Lengths:
    """How many rows of each split are longer than `max_length` tokens, which truncates them."""

    max_length: int
    longer: Mapping[str, int]


@dataclass(frozen=True)
class SplitReport:
    """The counts of one split; `repeated` are the rows whose input an earlier row has."""

    rows: int
    labels: Mapping[str, int]
    repeated: int
    contradictory: int  # of the repeated rows, those with another label
    blank: int  # lines of the file, which are skipped
    bad: int  # rows that cannot be used: without a text, a label or all cells
    encodings: tuple[str, ...]  # of its files; () for rows of another split


@dataclass(frozen=True)
class DataReport:
    """The counts of all splits, and the faults between them."""

    splits: Mapping[str, SplitReport]
    overlap: Mapping[str, Contamination] = field(default_factory=dict)  # with train
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # labels of other splits
    similar: tuple[tuple[str, ...], ...] = ()
    lengths: Lengths | None = None  # None: unknown without a vocabulary

    def messages(self) -> Iterator[Message]:
        """The lines that a training prints."""
        for name, split in self.splits.items():
            parts = [*_counts(split), *self._compared(name)]
            most = [*split.labels.items()][:MAX_LABELS]
            shown = [f"{join_names([label])} {n:,}" for label, n in most]
            more = ["…"] if len(split.labels) > MAX_LABELS else []
            yield Message(
                "data.split_counts",
                "{name}: {counts}{labels}",
                name=name,
                counts=join_messages(", ", parts),
                labels=f". {', '.join([*shown, *more])}" if shown else "",
            )
        for name, labels in self.missing.items():
            yield Message(
                "data.labels_missing",
                "{name} has no row of the label {labels}",
                name=name,
                labels=join_names(labels[:MAX_LABELS]),
            )
        if self._labels_are_joined():
            yield Message(
                "data.labels_joined",
                "most labels are several names with | between them, each read as one label; "
                "the names are read with task=multi_label_classification",
            )
        for group in self.similar:
            yield Message(
                "data.labels_similar",
                "the labels {labels} differ only in case or spaces, and are different labels",
                labels=", ".join(map(repr, group)),
            )

    def _labels_are_joined(self) -> bool:
        """Whether most different labels are several names, as multi-label classification reads."""
        labels = {label for split in self.splits.values() for label in split.labels}
        return 2 * sum(SEPARATOR in label.strip(SEPARATOR) for label in labels) > len(labels)

    def _compared(self, name: str) -> Iterator[Message]:
        """The counts of a split that depend on train or on the model."""
        if name in self.overlap:
            n = self.overlap[name].inputs
            yield Message("data.n_also_in_train", "{n:,} also in train", n=n)
        if self.lengths is not None:
            longer, rows = self.lengths.longer[name], self.splits[name].rows
            yield Message(
                "data.n_longer",
                "{n:,} ({share:.1%}) longer than {limit:,} tokens",
                n=longer,
                share=longer / max(rows, 1),
                limit=self.lengths.max_length,
            )


def _counts(split: SplitReport) -> Iterator[Message | str]:
    """The counts of a split by itself."""
    yield "1 row" if split.rows == 1 else Message("data.n_rows", "{n:,} rows", n=split.rows)
    yield from split.encodings
    yield Message("data.n_repeated", "{n:,} repeated", n=split.repeated)
    if split.contradictory:
        n = split.contradictory
        yield Message("data.n_contradictory", "{n:,} of them with another label", n=n)
    if split.encodings:
        n = split.blank
        yield "1 blank line" if n == 1 else Message("data.n_blank", "{n:,} blank lines", n=n)
    if split.bad:
        yield Message("data.n_unusable", "{n:,} unusable", n=split.bad)


def data_report(
    splits: Splits, config: DataConfig | None = None, lengths: Lengths | None = None
) -> DataReport:
    """Count the rows and labels of each split; `config` names its files.

    >>> train = Table.from_columns({"text": ["가", "가", "나"], "label": ["True", "True", "TRUE"]})
    >>> dev = Table.from_columns({"text": ["가"], "label": ["True"]})
    >>> for message in data_report(Splits({"train": train, "dev": dev})).messages():
    ...     print(message)
    train: 3 rows, 1 repeated. True 2, TRUE 1
    dev: 1 row, 0 repeated, 1 also in train. True 1
    dev has no row of the label TRUE
    the labels 'TRUE', 'True' differ only in case or spaces, and are different labels
    """
    files = config or DataConfig()
    reports = {
        name: _split_report(table, files.paths(name)) for name, table in splits.tables.items()
    }
    known = dict.fromkeys(label for report in reports.values() for label in report.labels)
    missing = {
        name: tuple(label for label in known if label not in report.labels)
        for name, report in reports.items()
    }
    return DataReport(
        reports,
        contamination(splits) if "train" in splits.tables else {},
        {name: labels for name, labels in missing.items() if labels},
        tuple(similar_labels(known)),
        lengths,
    )


def _split_report(table: Table, paths: tuple[Path, ...]) -> SplitReport:
    column = next((name for name in ("label", "labels", "tags") if name in table.column_names), "")
    labels = counted_labels(table.column(column), column) if column else {}
    repeated, contradictory = _repeated(table, column)
    files = [file for path in paths for file in several_files(path) or (path,)]
    return SplitReport(
        len(table),
        labels,
        repeated,
        contradictory,
        table.bad_rows.blank,
        table.bad_rows.count,
        tuple(dict.fromkeys(map(encoding_of, files))),
    )


def _repeated(table: Table, column: str) -> tuple[int, int]:
    """The rows with the input of an earlier row, and those of them with another label.

    Inputs are compared by hashes of 64 bits, so that no text of a large file is in memory.
    """
    hashes = np.fromiter((row_hash([text]) for text in inputs_of(table)), np.int64, len(table))
    if not column:
        hashes.sort()
        return int(np.count_nonzero(hashes[1:] == hashes[:-1])), 0
    _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    repeated = len(table) - len(first)
    if not repeated:
        return 0, 0
    labels = ranks(table.column(column), len(table))
    return repeated, int(np.count_nonzero(labels != labels[first][group]))
