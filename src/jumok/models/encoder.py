"""The encoder (figure 1, left): every position sees every other. BERT's kind of tower."""

from torch import Tensor, nn

from jumok.models.config import TransformerConfig
from jumok.models.embedding import InputEmbedding, position_ids
from jumok.nn.embedding import TokenEmbedding
from jumok.nn.masks import NO_MASK, AttentionMask
from jumok.nn.stack import LayerPositions, TransformerStack


class Encoder(nn.Module):
    """Ids in, one vector a token out.

    >>> import torch
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> tuple(Encoder(config)(torch.tensor([[1, 2, 3]])).shape)
    (1, 3, 8)
    """

    def __init__(self, config: TransformerConfig, tokens: TokenEmbedding | None = None) -> None:
        super().__init__()
        tokens = tokens or token_embedding(config, config.vocabulary_size)
        self.embedding = InputEmbedding(config, tokens)
        self.stack = TransformerStack(
            config, config.n_layers, layer_positions=layer_positions(config)
        )

    def forward(
        self,
        ids: Tensor,
        mask: AttentionMask = NO_MASK,
        *,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """ids (B, T) int64 -> (B, T, D). Positions count from 0 unless given (B, T)."""
        positions = position_ids(ids) if positions is None else positions
        x = self.embedding(ids, positions, segments)
        return self.stack(x, positions, mask)  # type: ignore[no-any-return]


def token_embedding(config: TransformerConfig, n_tokens: int) -> TokenEmbedding:
    """A fresh table for `n_tokens` tokens."""
    return TokenEmbedding(n_tokens, config.embedding_dim, scaled=config.scale_embedding)


def layer_positions(config: TransformerConfig) -> LayerPositions:
    """How the layers themselves learn of positions."""
    match config.positions:
        case "rotary" | "relative":
            return config.positions
        case _:
            return "none"
