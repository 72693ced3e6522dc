"""Embeddings of tokens and segments (3.4).

Shapes: B batch, T positions, D model width.
"""

import math

from torch import Tensor, nn


class TokenEmbedding(nn.Embedding):
    """One trained vector per token, scaled by sqrt(d_model) (section 3.4).

    The initial standard deviation is 1/sqrt(d_model): scaled vectors start at 1 and the same table
    can serve as the output projection (weight tying).

    >>> import torch
    >>> tuple(TokenEmbedding(10, 4)(torch.tensor([[1, 2, 3]])).shape)
    (1, 3, 4)
    """

    def __init__(self, n_tokens: int, d_model: int, *, scaled: bool = True) -> None:
        super().__init__(n_tokens, d_model)
        self.scale = math.sqrt(d_model) if scaled else 1.0
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> (B, T, D)."""
        x = super().forward(ids)
        return x * self.scale if self.scale != 1.0 else x


class SegmentEmbedding(nn.Embedding):
    """One trained vector per segment: which of several joined texts a token belongs to (BERT).

    The standard deviation starts at 0.02, small compared with the token vectors.

    >>> import torch
    >>> SegmentEmbedding(n_segments=2, d_model=8)(torch.tensor([[0, 0, 1]])).shape  # (B, T, D)
    torch.Size([1, 3, 8])
    """

    def __init__(self, n_segments: int, d_model: int) -> None:
        super().__init__(n_segments, d_model)
        nn.init.normal_(self.weight, std=0.02)
