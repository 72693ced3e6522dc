"""From ids to vectors: what a token is, where it stands, which segment it belongs to (3.4).

Shapes: B batch, T positions, D model width.
"""

import math

from torch import Tensor, nn


class TokenEmbedding(nn.Embedding):
    """One trained vector a token, scaled by sqrt(d_model) as section 3.4 has it.

    The vectors start with standard deviation 1/sqrt(d_model), so that scaled ones start at 1 and
    the same table can serve as the output projection (weight tying).

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
    """Which of several joined texts a token belongs to (BERT; note 002: 0 0 0 1 1 2 2).

    The vectors start small, with standard deviation 0.02, so that tokens are heard first.
    """

    def __init__(self, n_segments: int, d_model: int) -> None:
        super().__init__(n_segments, d_model)
        nn.init.normal_(self.weight, std=0.02)
