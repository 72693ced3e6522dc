"""The head of a classifier, applied to each text alone.

The sums of its products and means depend on the batch otherwise. With hidden states that do not,
the logits of a text then have the same bits alone and in any batch.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from jumok.models.character_classifier import Characters
from jumok.nn.masks import AttentionMask, Mask


@dataclass(frozen=True)
class RowByRow:
    """A head of one or more texts, as that of a model: it takes the place of `model.head`."""

    head: Callable[..., Tensor]

    def __call__(
        self, hidden: Tensor, mask: Mask, others: Tensor | Characters | None = None
    ) -> Tensor:
        """Hidden states (B, T, D) -> logits (B, ...), 0 after the end of a text.

        `others` are the segments (B, T), or the characters of a `CharacterClassifier`.
        """
        if isinstance(mask, AttentionMask):
            return self.head(hidden, mask, others)
        width = others.tokens.shape[1] if isinstance(others, Characters) else hidden.shape[1]
        segments = None if isinstance(others, Characters) else others
        rows = []
        for number, (part, real, its_segments) in enumerate(single_rows(hidden, mask, segments)):
            its_own = others.row(number) if isinstance(others, Characters) else its_segments
            row = self.head(part, real, its_own)  # (1, L), or of t tokens (1, t, L)
            rows.append(row if row.ndim == 2 else F.pad(row, (0, 0, 0, width - row.shape[1])))
        return torch.cat(rows)


def single_rows(
    hidden: Tensor, mask: Tensor | None, segments: Tensor | None = None
) -> Iterator[tuple[Tensor, Tensor | None, Tensor | None]]:
    """Hidden states (1, t, D), mask and segments (1, t) of each text, as if it were alone.

    A text of t tokens without padding has no mask.
    """
    lengths = [hidden.shape[1]] * len(hidden)
    if mask is not None:
        lengths = mask.sum(1).tolist()
        columns = torch.arange(hidden.shape[1], device=mask.device)
        if 0 in lengths or not torch.equal(mask, columns < mask.sum(1, keepdim=True)):
            for row in range(len(hidden)):  # padding on the left or inside, or no token
                one = slice(row, row + 1)
                yield hidden[one], mask[one], None if segments is None else segments[one]
            return
    for row, length in enumerate(lengths):
        part = hidden[row : row + 1, :length]
        yield part, None, None if segments is None else segments[row : row + 1, :length]
