"""The report of an export: differences, generated texts, printable lines."""

import math

import pytest
import torch

from jumok.errors import JumokError
from jumok.export.report import (
    ExportReport,
    NotMeasured,
    NumericComparison,
    QuantizationCost,
    relative_difference,
)
from jumok.formats.parity import compare_outputs
from tests.errors import raises


@pytest.mark.parametrize("difference", [2e-5, float("nan"), float("inf")])
def test_a_difference_above_the_tolerance_raises(difference: float) -> None:
    with raises(JumokError, "export.outputs_differ"):
        NumericComparison("logits", "all 3 rows of dev", difference, 1e-5).check_tolerance()
    NumericComparison("logits", "all 3 rows of dev", 1e-5, 1e-5).check_tolerance()


def test_printable_lines() -> None:
    compared = NumericComparison("logits", "all 3 rows of dev", 2.5e-7, 1e-5)
    cost = QuantizationCost(
        "all 3 rows of dev", {"accuracy": 0.9, "macro_f1": 0.8}, {"accuracy": 0.85, "macro_f1": 0.8}
    )
    assert list(ExportReport(compared, cost).lines()) == [
        "difference   logits of all 3 rows of dev: at most 2.5e-07, 1e-05 allowed",
        "int8         on all 3 rows of dev",
        "  accuracy 0.9000 -> 0.8500 (-0.0500)",
        "  macro_f1 0.8000 -> 0.8000 (+0.0000)",
    ]
    unknown = ExportReport(compared, NotMeasured("dev.tsv is missing"))
    assert list(unknown.lines())[-1] == "int8         not measured: dev.tsv is missing"


def test_ties_and_other_texts() -> None:
    likely = {(5, 6): [-1.0, -2.0, -0.5], (5, 7): [-1.0, -2.000001, -0.1], (8,): [-3.0, -1.0]}

    def log_p(number: int, ids: object) -> list[float]:
        return likely[tuple(ids)]

    found = compare_outputs(1, [[5, 6], [5, 6], [5, 6]], [[5, 6], [5, 7], [8]], log_p, limit=9)
    assert (found.search, found.n, found.equal) == ("greedy", 3, 1)
    assert found.ties == ("text 1: from token 1 on, 0.000001 apart",)
    assert found.others == ("text 2: from token 0 on, 2.000000 apart",)
    found = compare_outputs(
        4, [[5, 6]], [[5, 7]], log_p, limit=9
    )  # ranked by -3.5 / 3 and -3.1 / 3
    assert (found.search, found.others) == ("beam 4", ("text 0: from token 1 on, 0.133333 apart",))
    found = compare_outputs(4, [[5, 6]], [[5, 7]], log_p, limit=2)  # [EOS] was not generated
    assert (len(found.ties), found.others) == (1, ())


def test_the_largest_difference_relative_to_the_largest_number() -> None:
    pairs = [([1.0, 2.0], [1.0, 2.5]), ([8.0], [8.25]), ([], [])]
    assert relative_difference((torch.tensor(a), torch.tensor(b)) for a, b in pairs) == 0.5 / 8.25
    small = (torch.tensor([0.25]), torch.tensor([0.5]))
    assert relative_difference([small]) == 0.25  # the denominator is at least 1
    assert relative_difference([]) == 0.0


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_nan_and_infinity_give_nan(number: float) -> None:
    fine, wrong = torch.tensor([1.0, 2.0]), torch.tensor([number, 2.0])
    for pair in ((fine, wrong), (wrong, fine), (wrong, wrong)):
        assert math.isnan(relative_difference([(fine, fine), pair]))
