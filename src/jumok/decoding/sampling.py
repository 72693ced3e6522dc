"""Choose a token: the likeliest, or one drawn exactly by its probability.

A draw belongs to its text: the random number behind it follows from (seed, key of the text, number
of the answer, step) and nothing else, so a text is continued alike alone and in any batch.
Shapes: B rows being written, V vocabulary, L steps.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Choice = Callable[[Tensor, Tensor, int], Tensor]
"""scores (B, V), the rows (B) int64 they belong to, the step -> the token of each (B) int64."""


def likeliest(scores: Tensor, rows: Tensor, step: int) -> Tensor:
    """The token of the highest score, the smallest id of several: (B)."""
    return scores.argmax(-1)


class Draws:
    """Tokens drawn by softmax(scores), from random numbers fixed for every row beforehand.

    keys: one number for each text; `copies` answers are drawn for each, side by side.

    >>> draw = Draws([key_of([5, 6])], seed=0, copies=1, steps=4)
    >>> scores = torch.tensor([[0.1, 0.2, 0.7]]).log()
    >>> [int(draw(scores, torch.tensor([0]), step)) for step in range(4)]
    [2, 0, 2, 2]
    """

    def __init__(self, keys: Sequence[int], *, seed: int, copies: int, steps: int) -> None:
        self.uniform = torch.from_numpy(
            np.stack([_uniform(seed, key, copy, steps) for key in keys for copy in range(copies)])
        )  # (B, L) float64

    def __call__(self, scores: Tensor, rows: Tensor, step: int) -> Tensor:
        """The inverse of the cumulative distribution, summed in float64: (B, V) -> (B)."""
        self.uniform = self.uniform.to(scores.device)
        below = scores.softmax(-1, dtype=torch.float64).cumsum(-1)  # (B, V)
        mark = self.uniform[rows, step, None] * below[:, -1:]  # below the last: u <= 1 - 2^-52
        drawn = torch.searchsorted(below, mark, right=True)[:, 0]
        return drawn.clamp(max=scores.shape[1] - 1)  # also where every score is -inf


def key_of(ids: Iterable[int]) -> int:
    """A number from 0 to 2^64 - 1 that a text's tokens always give.

    >>> key_of([1, 2]) == key_of([1, 2]), key_of([1, 2]) == key_of([2, 1])
    (True, False)
    """
    data = np.fromiter(ids, dtype="<i8").tobytes()
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def _uniform(seed: int, key: int, copy: int, steps: int) -> NDArray[np.float64]:
    """Numbers from 0 to 1 - 2^-52: a Philox stream, which numpy promises never to change."""
    limbs = np.array([seed % 2**64, key % 2**64], dtype=np.uint64)
    raw = np.random.Philox(key=limbs, counter=[0, 0, 0, copy]).random_raw(steps)
    return (raw >> np.uint64(12)).astype(np.float64) * 2.0**-52
