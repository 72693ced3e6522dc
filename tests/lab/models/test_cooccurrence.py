"""Embeddings from co-occurrence: against a dense computation, and as initial weights."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from jumok.lab.models.cooccurrence import SMOOTHING, WINDOW, cooccurrence_embedding
from jumok.text.ragged import Ragged

V = 12


def _rows(seed: int) -> Ragged:
    rng = np.random.default_rng(seed)
    return Ragged.from_lists([rng.integers(0, V - 1, n).tolist() for n in (9, 1, 0, 30, 17, 2)])


def _dense(rows: Ragged) -> NDArray[np.float64]:
    """The positive mutual information of all pairs of tokens, (V, V), by loops."""
    counts = np.zeros((V, V))
    for row in rows:
        for i in range(len(row)):
            for j in range(i + 1, min(i + WINDOW, len(row) - 1) + 1):
                counts[row[i], row[j]] += 1 / (j - i)
                counts[row[j], row[i]] += 1 / (j - i)
    total = counts.sum(1)
    contexts = total**SMOOTHING
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log(counts * contexts.sum() / np.outer(total, contexts))
    return np.where((found > 0) & (counts >= 1), found, 0.0)


@pytest.mark.parametrize("seed", [0, 1])
def test_full_width_reproduces_the_matrix(seed: int) -> None:
    rows = _rows(seed)
    x = cooccurrence_embedding(rows, V, V, torch.Generator().manual_seed(0)).double().numpy()
    matrix = _dense(rows)
    u, s, _ = np.linalg.svd(matrix)
    expected = u @ np.diag(s) @ u.T  # x x^T = U S U^T
    scale = (x @ x.T).sum() / expected.sum()
    assert x @ x.T == pytest.approx(scale * expected, abs=1e-3)  # float32 products
    used = np.abs(x).sum(-1) > 0
    assert np.square(x[used]).mean() == pytest.approx(1.0, rel=1e-4)
    assert not used[V - 1]  # never drawn


def test_neighbours_are_those_of_the_same_row() -> None:
    apart = Ragged.from_lists([[0], [1], [0], [1]] * 5)
    assert not cooccurrence_embedding(apart, 3, 2, torch.Generator().manual_seed(0)).any()


def test_the_same_seed_gives_the_same_vectors() -> None:
    first, second = (
        cooccurrence_embedding(_rows(0), V, 4, torch.Generator().manual_seed(3)) for _ in range(2)
    )
    assert torch.equal(first, second)
