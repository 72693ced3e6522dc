"""Pooling uses only real tokens."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jumok.models.config import Pooling
from jumok.models.pooling import pool
from tests.nn.strategies import noise, sequence_mask
from tests.nn.tolerances import FLOAT64, close


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.booleans())
def test_pooling_uses_only_real_tokens(lengths: list[int], left: bool) -> None:
    real = sequence_mask(lengths, 5, left=left)
    hidden = noise(len(lengths), 5, 3, dtype=torch.float64)
    for i, rows in enumerate(hidden[i][real[i]] for i in range(len(lengths))):
        assert torch.equal(pool(hidden, real, "first")[i], rows[0])
        assert close(pool(hidden, real, "mean")[i], rows.mean(0), FLOAT64)
        assert torch.equal(pool(hidden, real, "max")[i], rows.amax(0))


@pytest.mark.parametrize("kind", ["first", "mean", "max"])
def test_no_mask_means_all_real(kind: Pooling) -> None:
    hidden = noise(2, 5, 3)
    assert close(pool(hidden, None, kind), pool(hidden, sequence_mask([5, 5], 5), kind), 1e-6)
