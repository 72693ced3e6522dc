"""Choose the next token: the argmax, or a sample from the exact distribution.

The random number of a sample depends only on (seed, key of the text, number of the hypothesis,
step), so a text has the same output alone and in any batch. Shapes: B rows, V vocabulary, L steps.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from jumok.decoding.random_numbers import draw_uniform, philox_stream

Sampler = Callable[[Tensor, Tensor, int], Tensor]
"""scores (B, V), the numbers of their rows (B) int64, the step -> the tokens (B) int64."""


def greedy(scores: Tensor, rows: Tensor, step: int) -> Tensor:
    """The token of the highest score, of equal ones the smallest id: (B)."""
    return scores.argmax(-1)


class CategoricalSampler:
    """Samples from softmax(scores), with random numbers that are fixed in advance for every row.

    keys: one number for each text, which has `copies` adjacent rows.

    >>> from jumok.decoding.random_numbers import text_key
    >>> sample = CategoricalSampler([text_key([5, 6])], seed=0, copies=1, steps=4)
    >>> scores = torch.tensor([[0.1, 0.2, 0.7]]).log()
    >>> [int(sample(scores, torch.tensor([0]), step)) for step in range(4)]
    [2, 2, 2, 2]
    """

    def __init__(self, keys: Sequence[int], *, seed: int, copies: int, steps: int) -> None:
        streams = [philox_stream(seed, key, n) for key in keys for n in range(copies)]
        self.uniform = torch.from_numpy(
            np.stack([draw_uniform(stream, steps) for stream in streams])
        )  # (B, L) float64

    def __call__(self, scores: Tensor, rows: Tensor, step: int) -> Tensor:
        """A token for each row: (B, V) -> (B)."""
        weights = softmax64(scores)
        self.uniform, rows = self.uniform.to(weights.device), rows.to(weights.device)
        return sample_inverse_cdf(weights, self.uniform[rows, step, None]).to(scores.device)


def softmax64(scores: Tensor) -> Tensor:
    """softmax in float64, (..., V); on the CPU for MPS, which has no float64."""
    scores = scores.cpu() if scores.device.type == "mps" else scores
    return scores.softmax(-1, dtype=torch.float64)


def sample_inverse_cdf(weights: Tensor, uniform: Tensor | float) -> Tensor:
    """Inverse transform sampling: weights (..., V) float64, uniform (..., 1) -> token (...).

    >>> int(sample_inverse_cdf(torch.tensor([1.0, 0.0, 3.0], dtype=torch.float64), 0.25))
    2
    """
    cumulative = weights.cumsum(-1)  # (..., V)
    threshold = uniform * cumulative[..., -1:]  # below the last: u <= 1 - 2^-52
    token = torch.searchsorted(cumulative, threshold, right=True)[..., 0]
    return token.clamp(max=weights.shape[-1] - 1)  # also where every weight is 0 or NaN
