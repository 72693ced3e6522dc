"""What is told of an export."""

import pytest

from jumok.errors import JumokError
from jumok.export.report import Compared, Cost, Outcome, Unmeasured
from jumok.export.same_texts import searched


@pytest.mark.parametrize("difference", [2e-5, float("nan"), float("inf")])
def test_other_numbers_are_refused(difference: float) -> None:
    with pytest.raises(JumokError, match=r"differs by .* in the logits, 1e-05 is allowed"):
        Compared("logits", "all 3 rows of dev", difference, 1e-5).refuse_other_numbers()
    Compared("logits", "all 3 rows of dev", 1e-5, 1e-5).refuse_other_numbers()


def test_lines_for_people() -> None:
    compared = Compared("logits", "all 3 rows of dev", 2.5e-7, 1e-5)
    cost = Cost(
        "all 3 rows of dev", {"accuracy": 0.9, "macro_f1": 0.8}, {"accuracy": 0.85, "macro_f1": 0.8}
    )
    assert list(Outcome(compared, cost).lines()) == [
        "equal        logits of all 3 rows of dev differ by 2.5e-07 at most, 1e-05 is allowed",
        "int8         on all 3 rows of dev",
        "  accuracy 0.9000 -> 0.8500 (-0.0500)",
        "  macro_f1 0.8000 -> 0.8000 (+0.0000)",
    ]
    unknown = Outcome(compared, Unmeasured("dev.tsv is missing"))
    assert list(unknown.lines())[-1] == "int8         not measured: dev.tsv is missing"


def test_ties_and_other_texts() -> None:
    likely = {(5, 6): [-1.0, -2.0, -0.5], (5, 7): [-1.0, -2.000001, -0.1], (8,): [-3.0, -1.0]}

    def log_p(number: int, ids: object) -> list[float]:
        return likely[tuple(ids)]

    found = searched(1, [[5, 6], [5, 6], [5, 6]], [[5, 6], [5, 7], [8]], log_p, limit=9)
    assert (found.search, found.n, found.equal) == ("greedy", 3, 1)
    assert found.ties == ("text 1: from token 1 on, 0.000001 apart",)
    assert found.others == ("text 2: from token 0 on, 2.000000 apart",)
    found = searched(4, [[5, 6]], [[5, 7]], log_p, limit=9)  # ranked by -3.5 / 3 and -3.1 / 3
    assert (found.search, found.others) == ("beam 4", ("text 0: from token 1 on, 0.133333 apart",))
    found = searched(4, [[5, 6]], [[5, 7]], log_p, limit=2)  # no end was written
    assert (len(found.ties), found.others) == (1, ())
