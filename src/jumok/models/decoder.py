"""The decoder (figure 1, right): no position attends to a later one. Alone it is GPT's decoder."""

from torch import Tensor, nn

from jumok.errors import ConfigError
from jumok.models.config import TransformerConfig
from jumok.models.embedding import InputEmbedding, position_ids
from jumok.models.encoder import token_embedding
from jumok.nn.cache import NO_DECODER_CACHE, DecoderCache, StackCache
from jumok.nn.embedding import TokenEmbedding
from jumok.nn.masks import AttentionMask, Mask
from jumok.nn.stack import TransformerStack


class Decoder(nn.Module):
    """Token ids to one vector per token, each computed from the tokens up to it.

    With `cross` the layers also attend to a memory, the output of an encoder.

    >>> import torch
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> tuple(Decoder(config)(torch.tensor([[1, 2, 3]])).shape)
    (1, 3, 8)
    """

    def __init__(
        self,
        config: TransformerConfig,
        tokens: TokenEmbedding | None = None,
        *,
        cross: bool = False,
    ) -> None:
        super().__init__()
        if config.d_embedding is not None:
            raise ConfigError(
                "model.d_embedding_of_decoder",
                "d_embedding must be unset for a decoder, got {d_embedding}; its embedding has "
                "the width of its layers",
                d_embedding=config.d_embedding,
            )
        n_layers = config.n_decoder_layers
        self.n_layers = config.n_layers if n_layers is None else n_layers
        tokens = tokens or token_embedding(config, config.output_size)
        self.embedding = InputEmbedding(config, tokens)
        self.stack = TransformerStack(
            config,
            self.n_layers,
            cross=cross,
            positions=config.positions,
            bidirectional=False,
        )

    def forward(
        self,
        ids: Tensor,
        mask: Mask = None,
        memory: Tensor | None = None,
        memory_mask: Mask = None,
        *,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
        cache: StackCache = NO_DECODER_CACHE,
    ) -> Tensor:
        """ids (B, T) int64, memory (B, S, D) -> (B, T, D).

        Causal, unless mask is an `AttentionMask`, which is used as it is. With a cache, ids are the
        newest tokens and the mask covers all tokens so far. Raises InputError for more than
        `max_length` tokens.
        """
        self.embedding.check_length(cache.length + ids.shape[1])
        positions = position_ids(ids, cache.length) if positions is None else positions
        mask, memory_mask = AttentionMask.of(mask, causal=True), AttentionMask.of(memory_mask)
        x = self.embedding(ids, positions, segments, mask)
        return self.stack(x, positions, mask, memory, memory_mask, cache)  # type: ignore[no-any-return]

    def hidden_states(
        self,
        ids: Tensor,
        mask: Mask = None,
        *,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """The last layer (B, T, D): a decoder has no head."""
        return self(ids, mask, positions=positions, segments=segments)  # type: ignore[no-any-return]

    def make_cache(self, capacity: int) -> DecoderCache:
        """An empty cache for a request of at most `capacity` tokens.

        Raises InputError for a capacity above max_length.
        """
        if capacity > self.embedding.max_length:
            raise ConfigError(
                "model.cache_too_long",
                "a cache must have at most max_length={max_length} tokens, got {capacity}; "
                "request fewer or train with a larger model.max_length",
                max_length=self.embedding.max_length,
                capacity=capacity,
            )
        return DecoderCache.with_capacity(self.n_layers, capacity)
