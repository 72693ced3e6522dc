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

Sampler = Callable[[Tensor, Tensor, int], Tensor]
"""scores (B, V), the rows (B) int64 they belong to, the step -> the token of each (B) int64."""


def greedy(scores: Tensor, rows: Tensor, step: int) -> Tensor:
    """The token of the highest score, the smallest id of several: (B)."""
    return scores.argmax(-1)


class CategoricalSampler:
    """Tokens drawn by softmax(scores), from random numbers fixed for every row beforehand.

    keys: one number for each text; `copies` answers are drawn for each, side by side.

    >>> draw = Draws([text_key([5, 6])], seed=0, copies=1, steps=4)
    >>> scores = torch.tensor([[0.1, 0.2, 0.7]]).log()
    >>> [int(draw(scores, torch.tensor([0]), step)) for step in range(4)]
    [2, 0, 2, 2]
    """

    def __init__(self, keys: Sequence[int], *, seed: int, copies: int, steps: int) -> None:
        every = [uniform(philox_stream(seed, key, n), steps) for key in keys for n in range(copies)]
        self.uniform = torch.from_numpy(np.stack(every))  # (B, L) float64

    def __call__(self, scores: Tensor, rows: Tensor, step: int) -> Tensor:
        """A token for each row: (B, V) -> (B)."""
        weights = softmax64(scores)
        self.uniform, rows = self.uniform.to(weights.device), rows.to(weights.device)
        return sample_inverse_cdf(weights, self.uniform[rows, step, None]).to(scores.device)


def text_key(ids: Iterable[int]) -> int:
    """A number from 0 to 2^64 - 1 that a text's tokens always give.

    >>> text_key([1, 2]) == text_key([1, 2]), text_key([1, 2]) == text_key([2, 1])
    (True, False)
    """
    data = np.fromiter(ids, dtype="<i8").tobytes()
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def philox_stream(
    seed: int, key: int, answer: int = 0, *, for_draft: bool = False
) -> np.random.Philox:
    """The random bits of an answer to a text; others where a draft guesses ahead of it.

    A Philox stream, which numpy promises never to change.
    """
    limbs = np.array([seed % 2**64, key % 2**64], dtype=np.uint64)
    return np.random.Philox(key=limbs, counter=[0, 0, int(for_draft), answer])


def uniform(chance: np.random.Philox, n: int) -> NDArray[np.float64]:
    """The next n numbers of a stream, from 0 to 1 - 2^-52."""
    return (chance.random_raw(n) >> np.uint64(12)).astype(np.float64) * 2.0**-52


def softmax64(scores: Tensor) -> Tensor:
    """The probabilities of scores, (..., V) float64: on the CPU, where Apple's GPU has none."""
    known = scores.cpu() if scores.device.type == "mps" else scores
    return known.softmax(-1, dtype=torch.float64)


def sample_inverse_cdf(weights: Tensor, uniform: Tensor | float) -> Tensor:
    """The inverse of the cumulative distribution: weights (..., V) float64, uniform (..., 1).

    >>> int(drawn(torch.tensor([1.0, 0.0, 3.0], dtype=torch.float64), 0.25))
    2
    """
    below = weights.cumsum(-1)  # (..., V)
    mark = uniform * below[..., -1:]  # below the last: u <= 1 - 2^-52
    token = torch.searchsorted(below, mark, right=True)[..., 0]
    return token.clamp(max=weights.shape[-1] - 1)  # also where every weight is 0 or NaN
