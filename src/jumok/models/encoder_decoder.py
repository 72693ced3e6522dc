"""The Transformer of figure 1: an encoder reads, a decoder writes and looks back at what was read.

Shapes: B batch, S source tokens, T target tokens, D model width, V target vocabulary.
"""

from torch import Tensor, nn

from jumok.errors import InputError
from jumok.models.config import TransformerConfig
from jumok.models.decoder import CAUSAL, Decoder
from jumok.models.encoder import Encoder, token_embedding
from jumok.models.initialization import initialize
from jumok.nn.cache import NO_DECODER_CACHE, DecoderCache
from jumok.nn.masks import NO_MASK, AttentionMask


class EncoderDecoder(nn.Module):
    """Sequence to sequence.

    >>> import torch
    >>> small = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> model = EncoderDecoder(small)
    >>> tuple(model(torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5]])).shape)
    (1, 2, 10)
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        together = config.tying in ("all", "inputs")
        if together and config.output_size != config.vocabulary_size:
            raise InputError(
                f"vocabularies of {config.vocabulary_size} and {config.output_size} tokens cannot "
                'share one table; set tie_embeddings = "target"'
            )
        source = token_embedding(config, config.vocabulary_size)
        target = source if together else token_embedding(config, config.output_size)
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
        source_mask: AttentionMask = NO_MASK,
        target_mask: AttentionMask = CAUSAL,
    ) -> Tensor:
        """source (B, S), target (B, T) int64 -> logits of each next token, (B, T, V)."""
        memory = self.encode(source, source_mask)
        return self.output(self.decode(target, memory, source_mask, target_mask))  # type: ignore[no-any-return]

    def encode(
        self, source: Tensor, mask: AttentionMask = NO_MASK, *, positions: Tensor | None = None
    ) -> Tensor:
        """What the encoder makes of the source (B, S): the memory (B, S, D)."""
        return self.encoder(source, mask, positions=positions)  # type: ignore[no-any-return]

    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        memory_mask: AttentionMask = NO_MASK,
        mask: AttentionMask = CAUSAL,
        *,
        positions: Tensor | None = None,
        cache: DecoderCache = NO_DECODER_CACHE,
    ) -> Tensor:
        """One vector for each target token (B, T, D); `self.output` makes logits of it."""
        hidden = self.decoder(
            target, mask, memory, memory_mask, positions=positions, cache=cache
        )  # (B, T, D)
        if self.output_scale != 1.0:
            hidden = hidden * self.output_scale
        return hidden  # type: ignore[no-any-return]
