"""The encoder (figure 1, left): every position attends to every other, as in BERT."""

from torch import Tensor, nn

from jumok.models.config import TransformerConfig
from jumok.models.embedding import InputEmbedding, position_ids
from jumok.nn.embedding import TokenEmbedding
from jumok.nn.masks import AttentionMask, Mask
from jumok.nn.stack import TransformerStack


class Encoder(nn.Module):
    """Token ids to one vector per token.

    >>> import torch
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> tuple(Encoder(config)(torch.tensor([[1, 2, 3]])).shape)
    (1, 3, 8)
    """

    def __init__(self, config: TransformerConfig, tokens: TokenEmbedding | None = None) -> None:
        super().__init__()
        tokens = tokens or token_embedding(config, config.vocabulary_size)
        self.embedding = InputEmbedding(config, tokens)
        self.stack = TransformerStack(config, config.n_layers, positions=config.positions)

    def forward(
        self,
        ids: Tensor,
        mask: Mask = None,
        *,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """ids (B, T) int64 -> (B, T, D). Without positions (B, T), they count from 0."""
        positions = position_ids(ids) if positions is None else positions
        mask = AttentionMask.of(mask)
        x = self.embedding(ids, positions, segments, mask)
        return self.stack(x, positions, mask)  # type: ignore[no-any-return]

    def hidden_states(
        self,
        ids: Tensor,
        mask: Mask = None,
        *,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """The last layer (B, T, D): an encoder has no head."""
        return self(ids, mask, positions=positions, segments=segments)  # type: ignore[no-any-return]


def token_embedding(config: TransformerConfig, n_tokens: int) -> TokenEmbedding:
    """A new embedding of `n_tokens` tokens."""
    return TokenEmbedding(n_tokens, config.embedding_dim, scaled=config.scale_embedding)
