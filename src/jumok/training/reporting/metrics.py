"""Metrics of a run: one line for each record, and one row for each evaluation.

    RUN/metrics.jsonl    every record, appended at once and synced to disk before the checkpoint of
                         its step; a resumed run drops the records that it will write again
    RUN/history.csv      one row for each evaluation on the development split
    RUN/history.png      the same as curves

history.csv and history.png are derived from metrics.jsonl and can be rewritten at any time.
"""

import csv
import io
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from jumok.atomic_io import storage_errors, write_atomically
from jumok.errors import InputError
from jumok.fonts import save_figure
from jumok.language import translate
from jumok.training.reporting.curves import BLUE, GREY, ORANGE, Chart, Curve, draw_charts
from jumok.training.state import LOWER_IS_BETTER, MAX_COUNT

if TYPE_CHECKING:
    from rich.table import Table

LogRecord: TypeAlias = Mapping[str, str | int | float | None]

METRICS = "metrics.jsonl"
REQUIRED = {
    "train": ("step", "epoch", "loss", "learning_rate", "tokens_per_second", "seconds"),
    "dev": ("step", "epoch", "loss", "score", "metric", "seconds"),
    "statistics": ("step", "epoch", "seconds"),  # and those of `jumok.training.statistics`, by name
}


@dataclass(frozen=True)
class Evaluation:
    """One row: the training since the previous row, and the score after it."""

    epoch: float
    step: int
    loss: float | None  # mean of the records since the last evaluation
    dev_loss: float | None  # None: not evaluated since
    score: float | None
    metric: str
    tokens_per_second: float | None
    seconds: float  # since the training began


class MetricsLog:
    """The records of the run in `folder`: appended to metrics.jsonl and kept for the curves.

    A resumed run keeps the records up to `resumed_step` and appends to them, so that an interrupted
    run has the same records as an uninterrupted one. A record belongs to a checkpoint if it is
    written before it. Of several processes only one is `enabled`; the others write nothing.

    >>> import tempfile
    >>> history = MetricsLog(Path(tempfile.mkdtemp()))
    >>> history.write({"kind": "train", "step": 10, "epoch": 0.5, "loss": 0.7,
    ...                "learning_rate": 1e-4, "tokens_per_second": 9000.0, "seconds": 3.0})
    >>> history.write({"kind": "dev", "step": 20, "epoch": 1.0, "loss": 0.6, "score": 0.8,
    ...                "metric": "accuracy", "seconds": 7.0})
    >>> [(row.loss, row.dev_loss, row.score) for row in evaluations(history.records)]
    [(0.7, 0.6, 0.8)]
    """

    def __init__(self, folder: Path, resumed_step: int = 0, *, enabled: bool = True) -> None:
        """Read the records up to `resumed_step`. Raises InputError for a damaged metrics.jsonl."""
        self.folder, self.enabled = folder, enabled
        self.records: list[LogRecord] = []
        if not enabled:
            return
        file = folder / METRICS
        before = read_records(file, until=resumed_step) if file.exists() else []
        self.records = [r for r in before if _step(r) <= resumed_step]
        write_atomically(file, "".join(map(_line, self.records)).encode())

    def write(self, record: LogRecord) -> None:
        """Append one record. Raises InputError for an incomplete one, StorageError."""
        if not _is_record(record):
            raise InputError(
                "training.not_a_record",
                "a record must have the keys of its kind, with numbers and texts, got {record}",
                record=ascii(record)[:80],
            )
        if not self.enabled:
            return
        path = self.folder / METRICS
        with storage_errors(f"{path}: cannot be written"), path.open("ab") as file:
            file.write(_line(record).encode())
        self.records.append(record)

    def sync(self) -> None:
        """Sync all records to disk: those of a committed step are never written again."""
        if not self.enabled:
            return
        path = self.folder / METRICS
        with storage_errors(f"{path}: cannot be written"), path.open("ab") as file:
            os.fsync(file.fileno())

    def write_summaries(self, title: str = "") -> None:
        """Write history.csv and history.png."""
        write_atomically(self.folder / "history.csv", to_csv(evaluations(self.records)).encode())
        save_figure(draw_charts(charts(self.records), title), self.folder / "history.png")


def read_records(file: Path, until: int | None = None) -> list[LogRecord]:
    """The records of a metrics.jsonl; damage at its end, left by a kill, is ignored.

    A power cut may leave complete lines after the damage; if records after the step `until` are not
    needed, those of later steps are dropped with it. Raises StorageError for a file that cannot be
    read, InputError for damage before a record that is needed.
    """
    with storage_errors(f"{file}: cannot be read"):
        lines = file.read_bytes().splitlines(keepends=True)
    records: list[LogRecord] = []
    damage: InputError | None = None
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not _is_record(record):
            damage = damage or InputError(
                "training.bad_line",
                "{file}, line {number} is not a record; restore the file or remove it",
                file=file,
                number=number,
            )
        elif damage is None:
            records.append(record)
        elif until is None or _step(record) <= until:
            raise damage
    return records


def evaluations(records: Iterable[LogRecord]) -> list[Evaluation]:
    """One row for each evaluation; records after the last one make a row without a score."""
    rows: list[Evaluation] = []
    pending: list[LogRecord] = []
    for record in records:
        if record["kind"] == "statistics":
            continue
        pending.append(record)
        if record["kind"] == "dev":
            rows.append(_row(pending))
            pending = []
    return [*rows, _row(pending)] if pending else rows


def best_evaluation(rows: Sequence[Evaluation]) -> Evaluation | None:
    """The row with the best score, the first of equals; None without any score."""
    scored = [row for row in rows if row.score is not None]
    if not scored:
        return None
    sign = -1.0 if scored[0].metric in LOWER_IS_BETTER else 1.0
    return max(scored, key=lambda row: sign * (row.score or 0.0))


def to_csv(rows: Iterable[Evaluation]) -> str:
    """The rows as CSV with a header line; unknown values are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(field.name for field in fields(Evaluation))
    writer.writerows(astuple(row) for row in rows)
    return text.getvalue()


def charts(records: Iterable[LogRecord]) -> list[Chart]:
    """Charts of the loss and the score over the epochs; no score chart without a score."""
    records = list(records)
    points = _points(records, "train", "loss")
    reports = Curve(translate("train, each report"), points, GREY, faint=True)
    return evaluation_charts(evaluations(records), reports)


def evaluation_charts(rows: Sequence[Evaluation], *behind: Curve) -> list[Chart]:
    """Charts of the losses and the scores of some rows, with other curves behind the losses."""

    def curve(name: str, values: Iterable[float | None], colour: str) -> Curve:
        points = zip((row.epoch for row in rows), values, strict=True)
        return Curve(translate(name), tuple((x, y) for x, y in points if y is not None), colour)

    losses = curve("train", (row.loss for row in rows), BLUE)
    dev_losses = curve("dev", (row.dev_loss for row in rows), ORANGE)
    loss = Chart(translate("loss"), (*behind, losses, dev_losses))
    top = best_evaluation(rows)
    if top is None or top.score is None:
        return [loss]
    scores = curve("dev", (row.score for row in rows), ORANGE)
    return [loss, Chart(top.metric, (scores,), best=(top.epoch, top.score))]


def evaluation_table(rows: Sequence[Evaluation]) -> "Table":
    """The rows as a table for the terminal, the best one marked."""
    from rich.table import Table

    result = Table(box=None, header_style="bold")
    for heading in evaluation_header(rows):
        result.add_column(translate(heading), justify="right")
    top = best_evaluation(rows)
    for row in rows:
        *before, score, speed, time = evaluation_texts(row)
        mark, style = ("★ ", "bold") if row is top else ("", None)
        result.add_row(*before, mark + score, speed, time, style=style)
    return result


def evaluation_header(rows: Sequence[Evaluation]) -> tuple[str, ...]:
    """The headings of a table of evaluations."""
    metric = next((row.metric for row in rows if row.metric), "score")
    return ("epoch", "step", "loss", "dev loss", metric, "tokens/s", "time")


def evaluation_texts(row: Evaluation) -> tuple[str, ...]:
    """The cells of an evaluation below `evaluation_header`; a dash for an unknown value."""
    numbers = ("–" if x is None else f"{x:.4f}" for x in (row.loss, row.dev_loss, row.score))
    speed = "–" if row.tokens_per_second is None else f"{row.tokens_per_second:,.0f}"
    return (f"{row.epoch:.2f}", f"{row.step:,}", *numbers, speed, format_duration(row.seconds))


def format_duration(seconds: float) -> str:
    """A duration as hours, minutes and seconds.

    >>> format_duration(75.4), format_duration(3725)
    ('1:15', '1:02:05')
    """
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def _row(records: Sequence[LogRecord]) -> Evaluation:
    """Summarize the records after an evaluation, up to and including the next one."""
    last = records[-1]
    dev = last if last["kind"] == "dev" else None
    return Evaluation(
        epoch=_value(last, "epoch") or 0.0,
        step=_step(last),
        loss=_mean(records, "loss"),
        dev_loss=None if dev is None else _value(dev, "loss"),
        score=None if dev is None else _value(dev, "score"),
        metric="" if dev is None else str(dev["metric"]),
        tokens_per_second=_mean(records, "tokens_per_second"),
        seconds=_value(last, "seconds") or 0.0,
    )


def _mean(records: Iterable[LogRecord], key: str) -> float | None:
    """The mean over the training records; None without any."""
    values = [_value(record, key) for record in records if record["kind"] == "train"]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _points(records: Iterable[LogRecord], kind: str, key: str) -> tuple[tuple[float, float], ...]:
    """(epoch, value) of every record of this kind with a finite value."""
    pairs = ((_value(r, "epoch"), _value(r, key)) for r in records if r["kind"] == kind)
    return tuple((x, y) for x, y in pairs if x is not None and y is not None)


def _value(record: LogRecord, key: str) -> float | None:
    """The value if it is a finite number, else None."""
    value = record[key]
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _step(record: LogRecord) -> int:
    """The step of a checked record."""
    return int(record["step"] or 0)


def _is_record(record: object) -> bool:
    """Whether this is a complete record of numbers and texts that JSON and CSV can hold."""
    kind = record.get("kind") if isinstance(record, Mapping) else None
    if not isinstance(record, Mapping) or not isinstance(kind, str) or kind not in REQUIRED:
        return False
    if any(key not in record for key in REQUIRED[kind]) or not isinstance(record["step"], int):
        return False
    if not all(_is_text(key) and _is_value(value) for key, value in record.items()):
        return False
    if any(isinstance(record[key], str) is not (key == "metric") for key in REQUIRED[kind]):
        return False
    times = (record["epoch"], record["seconds"])
    return all(value is None or abs(value) < MAX_COUNT for value in times)


def _is_value(value: object) -> bool:
    """Whether a record may contain this: a number that a float can hold, a text, or None."""
    if isinstance(value, int):
        return abs(value) < 2**63
    return value is None or isinstance(value, float) or _is_text(value)


def _is_text(value: object) -> bool:
    """Whether this is a text that can be encoded as UTF-8."""
    return isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value)


def _line(record: LogRecord) -> str:
    """One line of metrics.jsonl; NaN and infinity, which JSON does not have, become null."""
    known = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in record.items()
    }
    return json.dumps(known, ensure_ascii=False, allow_nan=False) + "\n"
