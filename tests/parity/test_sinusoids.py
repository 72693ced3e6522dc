"""Our sinusoids against the formula, number by number, in numpy."""

import numpy as np
import pytest
import torch

from jumok.nn import sinusoids
from jumok.viewer.positional_encodings import sinusoid_pairs
from tests.nn.tolerances import close


def sinusoid_table(n_seq: int, d_hidn: int) -> np.ndarray:
    """The textbook implementation."""
    angles = np.array(
        [[p / np.power(10000, 2 * (i // 2) / d_hidn) for i in range(d_hidn)] for p in range(n_seq)]
    )
    angles[:, 0::2] = np.sin(angles[:, 0::2])
    angles[:, 1::2] = np.cos(angles[:, 1::2])
    return angles


@pytest.mark.parametrize(("n", "d"), [(1, 2), (64, 128), (512, 16), (10, 7)])
def test_the_interleaved_table(n: int, d: int) -> None:
    table = torch.from_numpy(sinusoid_table(n, d))
    assert close(sinusoids(n, d), table, 1e-7)  # float32 keeps 24 bits
    assert close(sinusoids(n, d, halves=True), torch.cat([table[:, 0::2], table[:, 1::2]], 1), 1e-7)


def test_the_explained_sinusoids_are_the_models() -> None:
    assert close(sinusoids(64, 128), torch.from_numpy(sinusoid_pairs(64, 128)), 1e-7)
