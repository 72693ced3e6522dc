"""Metrics of a run: written line by line, truncated on resume, summarized in rows."""

import csv
import json
import logging
import math
from pathlib import Path

import pytest
from rich.console import Console

from jumok.errors import InputError, StorageError
from jumok.training.reporting.metrics import (
    METRICS,
    Evaluation,
    LogRecord,
    MetricsLog,
    best_evaluation,
    charts,
    evaluation_table,
    evaluations,
    format_duration,
    read_records,
)
from tests.errors import raises


def train(step: int, loss: float = 0.5) -> LogRecord:
    return {
        "kind": "train",
        "step": step,
        "epoch": step / 100,
        "loss": loss,
        "learning_rate": 1e-4,
        "tokens_per_second": 20_000.0 + step,
        "seconds": step * 0.5,
    }


def dev(step: int, score: float, metric: str = "accuracy") -> LogRecord:
    return {
        "kind": "dev",
        "step": step,
        "epoch": step / 100,
        "loss": 0.4,
        "score": score,
        "metric": metric,
        "macro_f1": 0.7,
        "seconds": step * 0.5 + 1,
    }


RECORDS = [
    train(50, 0.7),
    train(100, 0.5),
    dev(100, 0.80),
    train(150, 0.4),
    train(200, 0.2),
    dev(200, 0.85),
    train(250, 0.1),
]


def write(folder: Path, records: list[LogRecord], resumed_step: int = 0) -> MetricsLog:
    history = MetricsLog(folder, resumed_step)
    for record in records:
        history.write(record)
    return history


def test_each_record_is_on_disk_at_once(tmp_path: Path) -> None:
    history = MetricsLog(tmp_path)
    for count, record in enumerate(RECORDS, start=1):
        history.write(record)
        assert read_records(tmp_path / METRICS) == RECORDS[:count]


@pytest.mark.parametrize("count", range(len(RECORDS) + 1))
@pytest.mark.parametrize("torn", [b"", b'{"kind": "tra', b"\x00" * 20, b"[1]\n", b"\xff\xfe"])
def test_a_resumed_run_has_the_same_records(tmp_path: Path, count: int, torn: bytes) -> None:
    """Whatever was written after the checkpoint of step 100, however the last line is damaged."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    write(whole, RECORDS)
    write(killed, RECORDS[:count])
    with (killed / METRICS).open("ab") as file:
        file.write(torn)
    write(killed, RECORDS[min(count, 3) :], resumed_step=100)
    assert (killed / METRICS).read_bytes() == (whole / METRICS).read_bytes()


def test_a_new_run_drops_old_records(tmp_path: Path) -> None:
    write(tmp_path, RECORDS)
    assert MetricsLog(tmp_path).records == []
    assert (tmp_path / METRICS).read_bytes() == b""


def test_damage_in_the_middle_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, RECORDS)
    lines = (tmp_path / METRICS).read_text().splitlines()
    lines[2] = lines[2][:-5]
    (tmp_path / METRICS).write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"metrics.jsonl, line 3 is not a record; restore"):
        MetricsLog(tmp_path, resumed_step=200)
    with pytest.raises(StorageError, match="cannot be read"):
        read_records(tmp_path / "none.jsonl")


def test_damage_after_the_checkpoint_is_dropped(tmp_path: Path) -> None:
    """Blocks of zeros and half lines, then whole lines, all of steps after the 100th."""
    write(tmp_path, RECORDS)
    path = tmp_path / METRICS
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], b"\0" * 40, lines[3][20:], b"\xff\n", *lines[4:]]))
    with pytest.raises(InputError, match=r"line 4 is not a record"):
        read_records(path)
    with pytest.raises(InputError, match=r"line 4 is not a record"):
        MetricsLog(tmp_path, resumed_step=200)  # and nothing is overwritten
    write(tmp_path, RECORDS[3:], resumed_step=100)
    assert path.read_bytes() == b"".join(lines)


@pytest.mark.parametrize(
    "record",
    [
        {"kind": "test", "step": 1},
        {**train(1), "step": 1.5},
        {k: v for k, v in dev(1, 0.5).items() if k != "score"},
        {**train(1), "kind": ["train"]},
        {**train(1), "loss": 10**400},
        {**train(1), "epoch": 1e308},
        {**dev(1, 0.5), "seconds": -(2**60)},
        {**train(1), "more": {}},
        {**dev(1, 0.5), "metric": 1.0},
        {**dev(1, 0.5), "metric": "\ud800"},
        {**train(1), "seconds": "3"},
    ],
)
def test_invalid_records_are_rejected(tmp_path: Path, record: LogRecord) -> None:
    history = MetricsLog(tmp_path)
    with raises(InputError, "training.not_a_record"):
        history.write(record)
    assert (tmp_path / METRICS).read_bytes() == b""


def test_a_row_summarizes_the_records_since_the_last() -> None:
    rows = evaluations(RECORDS)
    assert rows[0] == Evaluation(1.0, 100, pytest.approx(0.6), 0.4, 0.80, "accuracy", 20_075, 51.0)
    assert rows[1].loss == pytest.approx(0.3)
    assert rows[2] == Evaluation(2.5, 250, 0.1, None, None, "", 20_250, 125.0)
    assert best_evaluation(rows) == rows[1]
    assert (
        best_evaluation(evaluations([dev(1, 9.0, "perplexity"), dev(2, 8.0, "perplexity")]))
        is not None
    )
    assert evaluations([]) == []
    assert best_evaluation([]) is None


def test_the_best_perplexity_is_the_lowest() -> None:
    top = best_evaluation(
        evaluations([dev(1, 9.0, "perplexity"), dev(2, 8.0, "perplexity"), dev(3, 8.0)])
    )
    assert top is not None
    assert top.step == 2


def test_nan_becomes_null_and_leaves_a_gap(tmp_path: Path) -> None:
    history = write(tmp_path, [train(1, math.nan), dev(2, math.inf), train(3, 0.5), dev(4, 0.8)])
    lines = (tmp_path / METRICS).read_text().splitlines()
    assert [json.loads(line)["loss"] for line in lines] == [None, 0.4, 0.5, 0.4]
    for records in (history.records, read_records(tmp_path / METRICS)):
        rows = evaluations(records)
        assert [row.loss for row in rows] == [None, 0.5]
        assert [row.score for row in rows] == [None, 0.8]
        assert [len(curve.points) for curve in charts(records)[0].curves] == [1, 1, 2]


def test_history_csv_and_png(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    history = write(tmp_path, RECORDS)
    with caplog.at_level(logging.WARNING):
        history.write_summaries("감정 분류")
    assert not caplog.records
    rows = list(csv.DictReader((tmp_path / "history.csv").read_text().splitlines()))
    assert [row["score"] for row in rows] == ["0.8", "0.85", ""]
    assert (tmp_path / "history.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "history.csv",
        "history.png",
        METRICS,
    ]


def test_charts_of_loss_and_score() -> None:
    loss, score = charts(RECORDS)
    assert [curve.points for curve in loss.curves][1:] == [
        ((1.0, pytest.approx(0.6)), (2.0, pytest.approx(0.3)), (2.5, 0.1)),
        ((1.0, 0.4), (2.0, 0.4)),
    ]
    assert (score.name, score.curves[0].points) == ("accuracy", ((1.0, 0.80), (2.0, 0.85)))
    assert score.best == (2.0, 0.85)
    assert [chart.name for chart in charts([train(1)])] == ["loss"]
    assert [chart.name for chart in charts([])] == ["loss"]


def test_the_table_for_the_terminal() -> None:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(evaluation_table(evaluations(RECORDS)))
    lines = capture.get().splitlines()
    headings = ["epoch", "step", "loss", "dev loss", "accuracy", "tokens/s", "time"]
    assert lines[0].split() == " ".join(headings).split()
    assert lines[2].split() == ["2.00", "200", "0.3000", "0.4000", "★", "0.8500", "20,175", "1:41"]
    assert lines[3].split() == ["2.50", "250", "0.1000", "–", "–", "20,250", "2:05"]


def test_format_duration() -> None:
    assert [format_duration(s) for s in (0, 59.6, 3599.4, 36000)] == [
        "0:00",
        "1:00",
        "59:59",
        "10:00:00",
    ]
