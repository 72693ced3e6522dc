"""How far the numbers of two models are apart: over all pairs, and NaN where one is no number."""

import math

import pytest
import torch

from jumok.export.difference import difference


def test_the_largest_of_all_pairs_by_the_largest_number_of_all() -> None:
    pairs = [([1.0, 2.0], [1.0, 2.5]), ([8.0], [8.25]), ([], [])]
    assert difference((torch.tensor(a), torch.tensor(b)) for a, b in pairs) == 0.5 / 8.25
    assert difference([(torch.tensor([0.25]), torch.tensor([0.5]))]) == 0.25  # by 1 at least
    assert difference([]) == 0.0


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_what_is_no_number_is_told(number: float) -> None:
    fine, wrong = torch.tensor([1.0, 2.0]), torch.tensor([number, 2.0])
    for pair in ((fine, wrong), (wrong, fine), (wrong, wrong)):
        assert math.isnan(difference([(fine, fine), pair]))
