"""Files of a million rows: how many bytes a row takes besides its text, which Arrow has."""

import tracemalloc
from collections.abc import Callable

import numpy as np

from jumok.data.report import _repeated
from jumok.data.stratified_split import strata_and_keys, stratified_draw
from jumok.data.table import Table
from jumok.text.ragged import Ragged
from jumok.text.template import SpecialToken, Template, TextSlot

N, DISTINCT = 60_000, 59_400  # rows, and texts


def peak(run: Callable[[], object]) -> float:
    """The memory of Python and NumPy that `run` takes at once, in bytes per row."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1] / N
    finally:
        tracemalloc.stop()


def reviews() -> Table:
    """Distinct texts, and then a hundredth of them with another label."""
    texts = [f"이 영화는 {n % DISTINCT}번 보아도 재미있어요" for n in range(N)]
    labels = ["긍정"] * DISTINCT + ["부정"] * (N - DISTINCT)
    return Table.from_columns({"text": texts, "label": labels})


def test_the_development_split_takes_numbers_only() -> None:
    table = reviews()
    assert peak(lambda: stratified_draw(*strata_and_keys(table), N // 10, 0)) < 80


def test_a_development_split_without_labels_takes_a_number_a_row() -> None:
    table = reviews().select(["text"])
    assert peak(lambda: stratified_draw(*strata_and_keys(table), N // 100, 0)) < 30


def test_the_report_takes_numbers_only() -> None:
    table = reviews()
    assert peak(lambda: _repeated(table, "label")) < 100
    assert _repeated(table, "label") == (N - DISTINCT, N - DISTINCT)


def test_the_report_without_labels_takes_a_number_a_row() -> None:
    table = reviews().select(["text"])
    assert peak(lambda: _repeated(table, "")) < 30


def test_special_tokens_take_one_copy_of_the_ids() -> None:
    lengths = np.full(N, 40, np.int64)
    rows = Ragged.from_lengths(np.arange(N * 40, dtype=np.int32), lengths)
    template = Template((SpecialToken((2,)), TextSlot(0), SpecialToken((3,))))
    assert peak(lambda: template.apply(rows, None, 64)) < 1.6 * 4 * 42
