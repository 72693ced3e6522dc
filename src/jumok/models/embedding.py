"""The input of an encoder or decoder: token + position + segment (3.4, 3.5; figure 1, bottom).

Shapes: B batch, T positions, D model width.
"""

import torch
from torch import Tensor, nn

from jumok.errors import ConfigError
from jumok.models.config import TransformerConfig
from jumok.nn.dropout import Dropout
from jumok.nn.embedding import SegmentEmbedding, TokenEmbedding
from jumok.nn.masks import NO_MASK, AttentionMask
from jumok.nn.norms import make_norm
from jumok.nn.positions import POSITIONS


class InputEmbedding(nn.Module):
    """The sum of the vectors of token, position and segment, then dropout (5.4).

    With `d_embedding` the vectors are narrower and projected to the width of the layers.
    """

    def __init__(self, config: TransformerConfig, tokens: TokenEmbedding) -> None:
        super().__init__()
        self.max_length = config.max_length
        self.tokens = tokens
        self.positions = POSITIONS.get(config.positions)().embedding(
            config.max_length, config.embedding_dim, config.position_offset
        )
        self.segments = (
            SegmentEmbedding(config.n_segments, config.embedding_dim) if config.n_segments else None
        )
        norm = make_norm(config.norm, config.embedding_dim, config.norm_eps)
        self.norm = norm if config.embedding_norm else nn.Identity()
        self.dropout = Dropout(config.dropout)
        self.projection = (
            nn.Identity()
            if config.d_embedding is None
            else nn.Linear(config.d_embedding, config.d_model)
        )

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        segments: Tensor | None = None,
        mask: AttentionMask = NO_MASK,
    ) -> Tensor:
        """ids, positions, segments (B, T) int64 -> (B, T, D).

        With a position offset, padding gets the row before that of position 0.
        """
        self.check_length(ids.shape[1])
        x = self.tokens(ids)
        if self.positions is not None:
            real = mask.real_tokens(ids.shape[1]) if self.positions.offset else None  # (B, T)
            padded = positions if real is None else positions.where(real, -1)
            x = x + self.positions(padded)
        if self.segments is not None:
            x = x + self.segments(torch.zeros_like(ids) if segments is None else segments)
        return self.projection(self.dropout(self.norm(x)))  # type: ignore[no-any-return]

    def check_length(self, tokens: int) -> None:
        """Raises InputError for more than `max_length` tokens."""
        if tokens > self.max_length:
            raise ConfigError(
                "model.text_too_long",
                "a text must have at most {max_length} tokens, got {tokens}; shorten it or train "
                "with a larger model.max_length",
                max_length=self.max_length,
                tokens=tokens,
            )


def position_ids(ids: Tensor, start: int = 0) -> Tensor:
    """The positions start, start + 1, ... of ids (B, T), as (1, T)."""
    return torch.arange(start, start + ids.shape[1], device=ids.device)[None]
