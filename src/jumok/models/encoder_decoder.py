"""The Transformer of figure 1: an encoder reads the source, a decoder predicts the target.

Shapes: B batch, S source tokens, T target tokens, D model width, V target vocabulary.
"""

from torch import Tensor, nn

from jumok.errors import ConfigError
from jumok.models.config import TransformerConfig
from jumok.models.decoder import Decoder
from jumok.models.encoder import Encoder, token_embedding
from jumok.models.weights import initialize
from jumok.nn.cache import NO_DECODER_CACHE, StackCache
from jumok.nn.masks import Mask


class EncoderDecoder(nn.Module):
    """Sequence to sequence.

    >>> import torch
    >>> small = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> model = EncoderDecoder(small)
    >>> tuple(model(torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5]])).shape)
    (1, 2, 10)

    Raises InputError for vocabularies of different sizes that share one embedding.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        shared = config.tying in ("all", "inputs")
        if shared and config.output_size != config.vocabulary_size:
            raise ConfigError(
                "model.vocabularies_of_different_sizes",
                "vocabularies that share one embedding must have the same size, got "
                '{vocabulary_size} and {output_size}; set tie_embeddings = "target"',
                vocabulary_size=config.vocabulary_size,
                output_size=config.output_size,
            )
        source = token_embedding(config, config.vocabulary_size)
        target = source if shared else token_embedding(config, config.output_size)
        self.encoder = Encoder(config, source)
        self.decoder = Decoder(config, target, cross=True)
        self.output_scale = config.d_model**-0.5 if config.scale_output else 1.0
        self.output = nn.Linear(config.d_model, config.output_size, bias=config.output_bias)
        if config.tying in ("all", "target"):
            self.output.weight = target.weight  # section 3.4
        initialize(self)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        mask: Mask = None,
        target_mask: Mask = None,
        *,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """source (B, S), target (B, T) int64 -> logits of each next token, (B, T, V).

        mask, positions and segments (B, S) belong to the source. Decoding is causal unless
        target_mask is an `AttentionMask`.
        """
        memory = self.encode(source, mask, positions=positions, segments=segments)
        return self.output(self.decode(target, memory, mask, target_mask))  # type: ignore[no-any-return]

    def hidden_states(
        self,
        source: Tensor,
        target: Tensor,
        mask: Mask = None,
        target_mask: Mask = None,
        *,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """source (B, S), target (B, T) int64 -> the decoder's last layer (B, T, D)."""
        memory = self.encode(source, mask, positions=positions, segments=segments)
        return self.decoder(target, target_mask, memory, mask)  # type: ignore[no-any-return]

    def encode(
        self,
        source: Tensor,
        mask: Mask = None,
        *,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """source (B, S) int64 -> the memory (B, S, D)."""
        return self.encoder(source, mask, positions=positions, segments=segments)  # type: ignore[no-any-return]

    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        memory_mask: Mask = None,
        mask: Mask = None,
        *,
        positions: Tensor | None = None,
        cache: StackCache = NO_DECODER_CACHE,
    ) -> Tensor:
        """One vector per target token (B, T, D), from which `self.output` computes logits."""
        hidden = self.decoder(
            target, mask, memory, memory_mask, positions=positions, cache=cache
        )  # (B, T, D)
        if self.output_scale != 1.0:
            hidden = hidden * self.output_scale
        return hidden  # type: ignore[no-any-return]
