"""No work on padding: the real tokens of a batch stand end to end, texts of like length together.

Shapes: B rows and T places of the batch; b texts of a group, w the width of its longest, n tokens.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from jumok.nn.masks import NO_MASK, AttentionMask


@dataclass(frozen=True)
class PaddingLayout:
    """Where n tokens that stand end to end would sit in b rows of width w.

    >>> seats = Seats.of(torch.tensor([[True, True], [True, False]]))
    >>> rows = seats.spread(torch.tensor([[1], [2], [3]]))
    >>> rows.tolist(), seats.gather(rows).tolist()
    ([[[1], [2]], [[3], [0]]], [[1], [2], [3]])
    """

    n_rows: int  # b
    width: int  # w
    token_index: (
        Tensor | None
    )  # (n) int64: the seats with a token, of all b * w; None when all have one
    mask: AttentionMask  # who may attend to whom, over (b, w)

    @classmethod
    def from_mask(cls, attention_mask: Tensor) -> "PaddingLayout":
        """The seats of real tokens, (b, w) bool."""
        b, w = attention_mask.shape
        if bool(attention_mask.all()):
            return cls(b, w, None, NO_MASK)
        taken = attention_mask.flatten().nonzero().squeeze(1)
        return cls(b, w, taken, AttentionMask.from_padding(attention_mask))

    def pad(self, x: Tensor) -> Tensor:
        """Tokens (n, ...) to their seats (b, w, ...); zeros where nobody sits."""
        if self.token_index is not None:
            x = x.new_zeros(self.n_rows * self.width, *x.shape[1:]).index_copy_(
                0, self.token_index, x
            )
        return x.view(self.n_rows, self.width, *x.shape[1:])

    def unpad(self, x: Tensor) -> Tensor:
        """What sits on the seats (b, w, ...), end to end again (n, ...)."""
        x = x.reshape(self.n_rows * self.width, *x.shape[2:])
        return x if self.token_index is None else x[self.token_index]

    @property
    def is_padding_only(self) -> bool:
        """Whether each token may attend to all tokens of its row."""
        return self.token_index is not None or self.mask == NO_MASK

    @property
    def lengths(self) -> Tensor:
        """How many tokens sit in each row: (b) int64."""
        if self.token_index is None:
            return torch.full((self.n_rows,), self.width)
        return torch.bincount(self.token_index // self.width, minlength=self.n_rows)

    @property
    def columns(self) -> Tensor:
        """The place of each token in its row: (n) int64."""
        if self.token_index is None:
            return torch.arange(self.width).repeat(self.n_rows)
        return self.token_index % self.width


def group_by_length(attention_mask: Tensor, batch_tokens: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Texts of like length, about `tokens` of them together.

    real (B, T) bool -> for each group the places (b, w) int64 that its rows cover, of all B * T,
    from each row's first real token to its last, and which of them are real (b, w). Rows without
    a real token are in no group.

    >>> real = torch.tensor([[True, False, False], [False, True, True]])
    >>> [(places.tolist(), some.tolist()) for places, some in grouped(real, tokens=8)]
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
        token_positions = rows[:, None] * T + columns.clamp(max=T - 1)
        yield token_positions, in_row & attention_mask.flatten()[token_positions]
