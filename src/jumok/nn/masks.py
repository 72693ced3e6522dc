"""Attention masks. True means "may attend", here and everywhere in jumok.

Shapes: B batch, H heads, T query positions, S key positions.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor
from torch.compiler import is_exporting

from jumok.errors import ConfigError


@dataclass(frozen=True)
class AttentionMask:
    """Which keys each query may attend to.

    >>> AttentionMask(causal=True).dense(3, 3).int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    """

    allowed: Tensor | None = None  # (B|1, H|1, T|1, S) bool; None allows everything
    causal: bool = False  # also hide later positions
    window: int | None = None  # also hide positions this far away or farther

    @classmethod
    def of(cls, mask: "Mask", *, causal: bool = False) -> "AttentionMask":
        """`mask` itself if it is an AttentionMask, else one that hides padding (`from_padding`)."""
        return mask if isinstance(mask, AttentionMask) else cls.from_padding(mask, causal=causal)

    @classmethod
    def from_padding(cls, mask: Tensor | None, *, causal: bool = False) -> "AttentionMask":
        """A mask that hides padding.

        mask (B, S) bool, True = real token; None if no row has padding. Raises InputError for
        another shape or dtype.

        >>> AttentionMask.from_padding(torch.tensor([[True, True, False]])).allowed
        tensor([[[[ True,  True, False]]]])
        """
        if mask is None:
            return cls(causal=causal)
        if mask.dtype != torch.bool or mask.dim() != 2:
            raise ConfigError(
                "nn.padding_mask",
                "a padding mask must be (B, S) bool, True = real token, got {shape} {dtype}; try "
                "ids != pad_id",
                shape=tuple(mask.shape),
                dtype=str(mask.dtype).removeprefix("torch."),
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

    def dense(self, T: int, S: int, device: torch.device | str = "cpu") -> Tensor:
        """The mask as a tensor of bool, (B|1, H|1, T|1, S) or (T, S).

        If T < S, the T queries are the newest of the S positions (a cache holds the others).
        """
        found = self.hiding(T, S, device)
        return torch.ones(T, S, dtype=torch.bool, device=device) if found is None else found

    def hiding(self, T: int, S: int, device: torch.device | str) -> Tensor | None:
        """The same; None if it hides nothing."""
        causal = self.causal and T > 1  # a single newest position has no future to hide
        # an exported graph is for every length: it must not depend on that of the example
        limited = self.window is not None and (is_exporting() or self.window < S)
        window = self.window if limited else None
        if not causal and window is None:
            return self.allowed
        near = torch.ones(T, S, dtype=torch.bool, device=device)
        near = near.tril(S - T if causal else S)  # (T, S)
        if window is not None:
            near = near.triu(S - T - window + 1)
            near = near if causal else near.tril(S - T + window - 1)
        return near if self.allowed is None else self.allowed & near

    def real_tokens(self, T: int) -> Tensor | None:
        """Which of the newest T keys are not padding, (B, T) bool; None if it hides none.

        >>> AttentionMask.from_padding(torch.tensor([[True, True, False]])).real_tokens(2)
        tensor([[ True, False]])
        """
        if self.allowed is None or self.allowed.dim() != 4 or self.allowed.shape[-2] != 1:
            return None
        return self.allowed[:, 0, 0, -T:]

    def is_triangle(self, S: int) -> bool:
        """Whether the mask of S positions hides later positions and nothing else."""
        return self.causal and self.allowed is None and (self.window is None or self.window >= S)

    def within(self, window: int | None) -> "AttentionMask":
        """A copy that also hides positions `window` or more away; None changes nothing.

        >>> AttentionMask(causal=True).within(2).dense(3, 3).int()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [0, 1, 1]], dtype=torch.int32)
        """
        return self if window is None else replace(self, window=window)


NO_MASK = AttentionMask()


def check_attention_mask(mask: AttentionMask) -> None:
    """Raises InputError for a mask that is a tensor, whose masked axis is ambiguous."""
    if isinstance(mask, Tensor) and mask.is_floating_point() and mask.ndim == 3:
        raise ConfigError(
            "nn.three_inputs",
            "attention takes (x, source, mask) and computes keys and values from source, got a "
            "tensor of shape {shape} as the mask; for queries, keys and values use "
            "torch.nn.MultiheadAttention",
            shape=tuple(mask.shape),
        )
    if not isinstance(mask, AttentionMask):
        raise ConfigError(
            "nn.not_an_attention_mask",
            "mask must be an AttentionMask, got {type_mask}; try "
            "AttentionMask.from_padding(mask) for a mask (B, S), AttentionMask(mask) for (T, S)",
            type_mask=type(mask).__name__,
        )


Mask: TypeAlias = Tensor | AttentionMask | None  # (B, S) bool, True = real token; None: no padding


def positions_from_mask(mask: Tensor) -> Tensor:
    """The position of each real token among the real tokens of its row; 0 on padding.

    mask (B, T) bool -> (B, T) int64. Padding on either side is not counted.

    >>> positions_from_mask(torch.tensor([[False, True, True], [True, True, False]]))
    tensor([[0, 0, 1],
            [0, 1, 0]])
    """
    return (mask.cumsum(-1) - 1).masked_fill(~mask, 0)
