"""T5's buckets against exact integer arithmetic, for every distance up to 2,048."""

from fractions import Fraction

import pytest
import torch

from jumok.nn import RelativePositionBias


def bucket(distance: int, bidirectional: bool, n_buckets: int, max_distance: int) -> int:
    """Bucket E + j begins at E (M/E)^(j/(n - E)): compared as whole numbers, without logarithms.

    E is the number of exact buckets, n all of one side, M the greatest distance.
    """
    start = 0
    if bidirectional:
        n_buckets //= 2
        start = n_buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    exact = n_buckets // 2
    if distance < exact:
        return start + distance
    steps = n_buckets - exact
    j = sum(
        Fraction(distance, exact) ** steps >= Fraction(max_distance, exact) ** i
        for i in range(1, steps)
    )
    return start + exact + j


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("n_buckets", "max_distance"), [(32, 128), (32, 512), (8, 20)])
def test_every_distance(n_buckets: int, max_distance: int, bidirectional: bool) -> None:
    bias = RelativePositionBias(
        1, bidirectional=bidirectional, n_buckets=n_buckets, max_distance=max_distance
    )
    distances = list(range(-2048, 2049))
    wanted = [bucket(d, bidirectional, n_buckets, max_distance) for d in distances]
    assert bias.bucket(torch.tensor(distances)).tolist() == wanted
