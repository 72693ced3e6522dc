"""Attention masks. True means "may attend", here and everywhere in jumok.

Shapes: B batch, H heads, T query positions, S key positions.
"""

from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from jumok.errors import InputError


@dataclass(frozen=True)
class AttentionMask:
    """Which keys each query may attend to.

    >>> AttentionMask(causal=True).dense(3, 3, torch.device("cpu")).int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    """

    allowed: Tensor | None = None  # (B|1, H|1, T|1, S) bool; None allows everything
    causal: bool = False  # also hide later positions

    @classmethod
    def of(cls, mask: "Mask", *, causal: bool = False) -> "AttentionMask":
        """`mask` itself if it is an AttentionMask, else one that hides padding (`from_padding`)."""
        return mask if isinstance(mask, AttentionMask) else cls.from_padding(mask, causal=causal)

    @classmethod
    def from_padding(cls, mask: Tensor | None, *, causal: bool = False) -> "AttentionMask":
        """A mask that hides padding.

        mask (B, S) bool, True = real token; None if no row has padding.

        >>> AttentionMask.from_padding(torch.tensor([[True, True, False]])).allowed
        tensor([[[[ True,  True, False]]]])
        """
        if mask is None:
            return cls(causal=causal)
        if mask.dtype != torch.bool or mask.dim() != 2:
            raise InputError(
                f"a padding mask must be (B, S) bool, True = real token, got "
                f"{tuple(mask.shape)} {str(mask.dtype).removeprefix('torch.')}; try ids != pad_id"
            )
        return cls(mask[:, None, None, :], causal)

    @classmethod
    def from_segments(cls, segments: Tensor, *, causal: bool = False) -> "AttentionMask":
        """A mask for several sequences packed in one row: each attends to itself only.

        segments (B, T) int: the number of the sequence of each position; positions with a negative
        number are padding and hidden.

        >>> AttentionMask.from_segments(torch.tensor([[0, 0, 1, -1]])).allowed[0, 0].int()
        tensor([[1, 1, 0, 0],
                [1, 1, 0, 0],
                [0, 0, 1, 0],
                [0, 0, 0, 0]], dtype=torch.int32)
        """
        same = segments[:, None, :, None] == segments[:, None, None, :]  # (B, 1, T, T)
        return cls(same & (segments >= 0)[:, None, None, :], causal)

    def dense(self, T: int, S: int, device: torch.device) -> Tensor | None:
        """The mask as a tensor, (B|1, H|1, T|1, S) or (T, S); None if it hides nothing.

        If T < S, the T queries are the newest of the S positions (a cache holds the others).
        """
        if not self.causal or T == 1:  # a single newest position has no future to hide
            return self.allowed
        past = torch.ones(T, S, dtype=torch.bool, device=device).tril(S - T)  # (T, S)
        return past if self.allowed is None else self.allowed & past


NO_MASK = AttentionMask()

Mask: TypeAlias = Tensor | AttentionMask | None  # (B, S) bool, True = real token; None: no padding


def positions_from_mask(mask: Tensor) -> Tensor:
    """The position of each real token among the real tokens of its row; 0 on padding.

    mask (B, T) bool -> (B, T) int64. Padding on either side is not counted.

    >>> positions_from_mask(torch.tensor([[False, True, True], [True, True, False]]))
    tensor([[0, 0, 1],
            [0, 1, 0]])
    """
    return (mask.cumsum(-1) - 1).masked_fill(~mask, 0)
