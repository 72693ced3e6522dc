"""Replaced token detection (ELECTRA, Clark et al. 2020): a small generator and an encoder.

Shapes: B texts, T tokens, D model width, V vocabulary, M masked tokens.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from jumok.models.config import TransformerConfig
from jumok.models.heads import MaskedLanguageModel, ReplacedTokenDetector
from jumok.nn.masks import Mask
from jumok.tasks.recipe.tables import ModelConfig

SAMPLE_CHUNK = 1_024  # tokens: their float32 logits of 32,000 pieces take 130 MB


class ReplacedTokenModel(ReplacedTokenDetector):
    """An encoder that detects the tokens which a generator put in the place of masked ones.

    Both share the tables of tokens, positions and segments (section 3.2). The generator is
    `generator` times as wide as the encoder and has `generator_layers` layers.

    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> model = ReplacedTokenModel(config, generator=0.5, generator_layers=1)
    >>> tuple(model(torch.tensor([[1, 2, 3]])).shape)
    (1, 3, 10)
    """

    def __init__(self, config: TransformerConfig, generator: float, generator_layers: int) -> None:
        super().__init__(config)
        small = replace(
            config,
            d_model=int(config.d_model * generator),
            d_ff=int(config.d_ff * generator),
            n_heads=int(config.n_heads * generator),
            n_layers=generator_layers,
            d_embedding=config.embedding_dim,
        )
        self.generator = MaskedLanguageModel(small)
        own, shared = self.generator.encoder.embedding, self.encoder.embedding
        own.tokens, own.positions, own.segments = shared.tokens, shared.positions, shared.segments
        if config.tying in ("all", "target"):
            self.generator.output.weight = shared.tokens.weight

    def forward(
        self,
        ids: Tensor,
        mask: Mask = None,
        *,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """The generator's logits of masked tokens: ids (B, T) int64 -> (B, T, V)."""
        return self.generator(ids, mask, positions=positions, segments=segments)  # type: ignore[no-any-return]

    def detect(self, ids: Tensor, mask: Mask = None, *, positions: Tensor | None = None) -> Tensor:
        """ids (B, T) int64 -> logits (B, T); above 0 means "replaced"."""
        return super().forward(ids, mask, positions=positions)


def replaced_token_model(config: ModelConfig) -> ReplacedTokenModel:
    """The model of a recipe; each part is an encoder without a generator."""
    plain = replace(config, generator=0.0)
    return ReplacedTokenModel(plain, config.generator, config.generator_layers)


@torch.no_grad()
def sample_tokens(hidden: Tensor, output: nn.Linear) -> Tensor:
    """A token for each masked one, drawn from the generator's distribution: (M, D) -> (M,) int64.

    The largest of logits plus Gumbel noise is distributed as softmax(logits).
    """
    samples = []
    for start in range(0, len(hidden), SAMPLE_CHUNK):
        logits = output(hidden[start : start + SAMPLE_CHUNK]).float()  # (M, V)
        noise = torch.empty_like(logits).exponential_().log_()
        samples.append((logits - noise).argmax(-1))
    return torch.cat(samples) if samples else hidden.new_zeros(0, dtype=torch.long)
