"""Unpadding: concatenate the real tokens of a batch, in groups of texts of similar length.

Shapes: B rows and T columns of the batch; b texts of a group, w the length of its longest,
n tokens.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from jumok.nn.masks import NO_MASK, AttentionMask


@dataclass(frozen=True)
class PaddingLayout:
    """Where n concatenated tokens are in b padded rows of width w.

    >>> layout = PaddingLayout.from_mask(torch.tensor([[True, True], [True, False]]))
    >>> rows = layout.pad(torch.tensor([[1], [2], [3]]))
    >>> rows.tolist(), layout.unpad(rows).tolist()
    ([[[1], [2]], [[3], [0]]], [[1], [2], [3]])
    """

    n_rows: int  # b
    width: int  # w
    token_index: Tensor | None  # (n) int64 into the b * w positions; None without padding
    mask: AttentionMask  # over (b, w)

    @classmethod
    def from_mask(cls, attention_mask: Tensor) -> "PaddingLayout":
        """The layout of real tokens, (b, w) bool."""
        b, w = attention_mask.shape
        if bool(attention_mask.all()):
            return cls(b, w, None, NO_MASK)
        token_index = attention_mask.flatten().nonzero().squeeze(1)
        return cls(b, w, token_index, AttentionMask.from_padding(attention_mask))

    def pad(self, x: Tensor) -> Tensor:
        """Tokens (n, ...) -> (b, w, ...), with zeros on padding."""
        if self.token_index is not None:
            padded = x.new_zeros(self.n_rows * self.width, *x.shape[1:])
            x = padded.index_copy_(0, self.token_index, x)
        return x.view(self.n_rows, self.width, *x.shape[1:])

    def unpad(self, x: Tensor) -> Tensor:
        """Rows (b, w, ...) -> tokens (n, ...)."""
        x = x.reshape(self.n_rows * self.width, *x.shape[2:])
        return x if self.token_index is None else x[self.token_index]

    @property
    def is_padding_only(self) -> bool:
        """Whether each token may attend to all tokens of its row."""
        return self.token_index is not None or self.mask == NO_MASK

    @property
    def is_contiguous(self) -> bool:
        """Whether the tokens of each row follow each other from column 0, without gaps.

        >>> PaddingLayout.from_mask(torch.tensor([[True, False, True]])).is_contiguous
        False
        """
        return bool((self.columns < self.lengths.repeat_interleave(self.lengths)).all())

    @property
    def lengths(self) -> Tensor:
        """The number of tokens in each row: (b) int64."""
        if self.token_index is None:
            return torch.full((self.n_rows,), self.width)
        return torch.bincount(self.token_index // self.width, minlength=self.n_rows)

    @property
    def columns(self) -> Tensor:
        """The column of each token in its row: (n) int64."""
        if self.token_index is None:
            return torch.arange(self.width).repeat(self.n_rows)
        return self.token_index % self.width


def group_by_length(attention_mask: Tensor, batch_tokens: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Groups of texts of similar length, with about `batch_tokens` tokens each.

    attention_mask (B, T) bool -> for each group the indices (b, w) int64 into the B * T positions,
    from the first to the last real token of each row, and their attention mask (b, w). Rows without
    a real token are in no group.

    >>> mask = torch.tensor([[True, False, False], [False, True, True]])
    >>> [(index.tolist(), part.tolist()) for index, part in group_by_length(mask, batch_tokens=8)]
    [([[4, 5], [0, 1]], [[True, True], [True, False]])]
    """
    B, T = attention_mask.shape
    first = attention_mask.int().argmax(1)  # (B)
    last = T - 1 - attention_mask.flip(1).int().argmax(1)  # (B)
    widths = ((last - first + 1) * attention_mask.any(1)).tolist()
    longest_first = sorted((row for row in range(B) if widths[row]), key=lambda row: -widths[row])
    while longest_first:
        count = max(1, batch_tokens // widths[longest_first[0]])
        rows = torch.tensor(longest_first[:count])  # (b)
        del longest_first[:count]
        columns = first[rows, None] + torch.arange(widths[rows[0]])  # (b, w)
        in_row = columns <= last[rows, None]
        index = rows[:, None] * T + columns.clamp(max=T - 1)
        yield index, in_row & attention_mask.flatten()[index]
