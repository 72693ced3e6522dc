"""The decoder (figure 1, right): nobody sees the future. Alone it is GPT's kind of tower."""

from torch import Tensor, nn

from jumok.errors import InputError
from jumok.models.config import TransformerConfig
from jumok.models.embedding import InputEmbedding, position_ids
from jumok.models.encoder import layer_positions, token_embedding
from jumok.nn.cache import NO_DECODER_CACHE, DecoderCache
from jumok.nn.embedding import TokenEmbedding
from jumok.nn.masks import NO_MASK, AttentionMask
from jumok.nn.stack import TransformerStack

CAUSAL = AttentionMask(causal=True)


class Decoder(nn.Module):
    """Ids in, one vector a token out, each made from the tokens up to it.

    With `cross` the layers attend to a memory as well: the encoder's result.

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
            raise InputError(
                f"d_embedding {config.d_embedding} came with a decoder, whose tables are as "
                "wide as its layers; leave it out"
            )
        given = config.n_decoder_layers
        self.n_layers = config.n_layers if given is None else given
        tokens = tokens or token_embedding(config, config.output_size)
        self.embedding = InputEmbedding(config, tokens)
        self.stack = TransformerStack(
            config,
            self.n_layers,
            cross=cross,
            layer_positions=layer_positions(config),
            bidirectional=False,
        )

    def forward(
        self,
        ids: Tensor,
        mask: AttentionMask = CAUSAL,
        memory: Tensor | None = None,
        memory_mask: AttentionMask = NO_MASK,
        *,
        positions: Tensor | None = None,
        cache: DecoderCache = NO_DECODER_CACHE,
    ) -> Tensor:
        """ids (B, T) int64, memory (B, S, D) -> (B, T, D).

        With a cache, ids are the newest tokens and the mask speaks of all so far. Raises InputError
        for more than `max_length` of them.
        """
        self.embedding.check_length(cache.length + ids.shape[1])
        positions = position_ids(ids, cache.length) if positions is None else positions
        x = self.embedding(ids, positions)
        return self.stack(x, positions, mask, memory, memory_mask, cache)  # type: ignore[no-any-return]

    def make_cache(self, capacity: int) -> DecoderCache:
        """A fresh cache for a request of at most `room` tokens; InputError beyond max_length."""
        if capacity > self.embedding.max_length:
            raise InputError(
                f"room for {capacity} tokens was asked, the model holds {self.embedding.max_length}; "
                "ask for less or train with a larger model.max_length"
            )
        return DecoderCache.with_capacity(self.n_layers, capacity)
