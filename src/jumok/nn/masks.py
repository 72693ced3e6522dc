"""Masks: who may attend to whom. True means "may attend", here and everywhere in jumok.

Shapes: B batch, H heads, T positions asking (queries), S positions attended to (keys).
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class AttentionMask:
    """Who may attend to whom.

    >>> AttentionMask(causal=True).table(3, 3, torch.device("cpu")).int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    """

    allowed: Tensor | None = None  # (B|1, H|1, T|1, S) bool; None when nothing is hidden
    causal: bool = False  # nobody attends to what comes later

    @classmethod
    def from_padding(cls, real: Tensor | None, *, causal: bool = False) -> "AttentionMask":
        """Padding is hidden from everybody.

        real (B, S) bool is True for real tokens, None where no row has padding.

        >>> AttentionMask.from_padding(torch.tensor([[True, True, False]])).allowed
        tensor([[[[ True,  True, False]]]])
        """
        if real is None:
            return cls(causal=causal)
        return cls(real[:, None, None, :], causal)

    @classmethod
    def from_segments(cls, segments: Tensor, *, causal: bool = False) -> "AttentionMask":
        """Several sequences packed in one row: each attends to itself alone.

        segments (B, T) int: the number of the sequence each position belongs to; positions
        numbered below 0 are padding, hidden from everybody.

        >>> AttentionMask.from_segments(torch.tensor([[0, 0, 1, -1]])).allowed[0, 0].int()
        tensor([[1, 1, 0, 0],
                [1, 1, 0, 0],
                [0, 0, 1, 0],
                [0, 0, 0, 0]], dtype=torch.int32)
        """
        same = segments[:, None, :, None] == segments[:, None, None, :]  # (B, 1, T, T)
        return cls(same & (segments >= 0)[:, None, None, :], causal)

    def dense(self, T: int, S: int, device: torch.device) -> Tensor | None:
        """The mask written out, (B|1, H|1, T|1, S) or (T, S); None when nothing is hidden.

        With T < S the T queries are the newest of the S positions (a cache holds the others).
        """
        if not self.causal or T == 1:  # the newest position alone has no future to hide
            return self.allowed
        past = torch.ones(T, S, dtype=torch.bool, device=device).tril(S - T)  # (T, S)
        return past if self.allowed is None else self.allowed & past


NO_MASK = AttentionMask()


def positions_from_mask(real: Tensor) -> Tensor:
    """The position of each real token among the real tokens of its row; 0 on padding.

    real (B, T) bool -> (B, T) int64. Padding may stand left or right: it never counts.

    >>> positions_from_mask(torch.tensor([[False, True, True], [True, True, False]]))
    tensor([[0, 0, 1],
            [0, 1, 0]])
    """
    return (real.cumsum(-1) - 1).masked_fill(~real, 0)
