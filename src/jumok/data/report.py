"""What the splits of own files contain: labels, repeated rows, blank lines, similar labels."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from jumok.data.contamination import Contamination, contamination
from jumok.data.files.labels import counted_labels, similar_labels
from jumok.data.splits import Splits
from jumok.data.stratified_split import inputs_of
from jumok.errors import Message

MAX_LABELS = 10  # in one line


@dataclass(frozen=True)
class SplitReport:
    """The counts of one split; `repeated` are the rows whose input an earlier row has."""

    rows: int
    labels: Mapping[str, int]
    repeated: int
    blank: int  # lines of the file, which are skipped
    bad: int


@dataclass(frozen=True)
class DataReport:
    """The counts of all splits, and the faults between them."""

    splits: Mapping[str, SplitReport]
    overlap: Mapping[str, Contamination]  # of each split with train
    missing: Mapping[str, tuple[str, ...]]  # the labels of other splits that a split lacks
    similar: tuple[tuple[str, ...], ...]

    def messages(self) -> Iterator[Message]:
        """The lines that a training prints."""
        for name, split in self.splits.items():
            shown = [f"{label} {n:,}" for label, n in [*split.labels.items()][:MAX_LABELS]]
            more = ["…"] if len(split.labels) > MAX_LABELS else []
            yield Message(
                "data.split_counts",
                "{name}: {rows:,} rows, {repeated:,} repeated, {overlap:,} also in train, "
                "{blank:,} blank lines. {labels}",
                name=name,
                rows=split.rows,
                repeated=split.repeated,
                overlap=self.overlap[name].inputs if name in self.overlap else 0,
                blank=split.blank,
                labels=", ".join([*shown, *more]),
            )
        for name, labels in self.missing.items():
            yield Message(
                "data.labels_missing",
                "{name} has no row of the label {labels}",
                name=name,
                labels=", ".join(labels[:MAX_LABELS]),
            )
        for group in self.similar:
            yield Message(
                "data.labels_similar",
                "the labels {labels} differ only in case or spaces, and are different labels",
                labels=", ".join(map(repr, group)),
            )


def data_report(splits: Splits) -> DataReport:
    """Count the rows and labels of each split.

    >>> from jumok.data.table import Table
    >>> train = Table.from_columns({"text": ["가", "가", "나"], "label": ["True", "True", "TRUE"]})
    >>> dev = Table.from_columns({"text": ["가"], "label": ["True"]})
    >>> for message in data_report(Splits({"train": train, "dev": dev})).messages():
    ...     print(message)
    train: 3 rows, 1 repeated, 0 also in train, 0 blank lines. True 2, TRUE 1
    dev: 1 rows, 0 repeated, 1 also in train, 0 blank lines. True 1
    dev has no row of the label TRUE
    the labels 'TRUE', 'True' differ only in case or spaces, and are different labels
    """
    reports: dict[str, SplitReport] = {}
    for name, table in splits.tables.items():
        column = next((c for c in ("label", "labels", "tags") if c in table.column_names), "")
        labels = counted_labels(table.column(column), column) if column else {}
        inputs = np.fromiter(map(hash, inputs_of(table)), np.int64, len(table))
        repeated = len(table) - len(np.unique(inputs))
        bad = table.bad_rows
        reports[name] = SplitReport(len(table), labels, repeated, bad.blank, bad.count)
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
    )
