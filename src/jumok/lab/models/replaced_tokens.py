"""Replaced token detection (ELECTRA, Clark et al. 2020): a small generator and an encoder.

Shapes: B texts, T tokens, D model width, V vocabulary, M masked tokens.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jumok.models.config import TransformerConfig
from jumok.models.heads import MaskedLanguageModel, ReplacedTokenDetector
from jumok.nn.masks import Mask
from jumok.tasks.masked_lm import MaskedBatch, MaskedLMJob
from jumok.tasks.recipe.tables import ModelConfig

DETECTION_WEIGHT = 50.0  # lambda in section 3.3 of Clark et al.
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


class ReplacedTokenJob(MaskedLMJob):
    """Trains a generator with the masked tokens, and an encoder to detect its replacements."""

    def loss_of(self, hidden: Tensor, output: nn.Linear, batch: MaskedBatch) -> Tensor:
        """Cross-entropy of the masked tokens, summed, plus that of detecting replaced tokens."""
        assert isinstance(self.model, ReplacedTokenModel)
        loss = super().loss_of(hidden, output, batch)
        return loss + replaced_token_loss(self.model, batch, hidden, output)


def replaced_token_loss(
    model: ReplacedTokenModel, batch: MaskedBatch, hidden: Tensor, output: nn.Linear
) -> Tensor:
    """The loss of detecting the tokens that the generator replaced, times the masked tokens: ().

    hidden (M, D) are the generator's transformed hidden states of the masked tokens. The binary
    cross-entropy is a mean over all real tokens, padding excepted, with the weight of section 3.3.
    """
    ids = batch.texts.input_ids.flatten()
    original = ids.index_copy(0, batch.positions, batch.labels)
    corrupted = original.index_copy(0, batch.positions, sample_tokens(hidden, output))
    replaced = (corrupted != original).view_as(batch.texts.input_ids)  # (B, T)
    logits = model.detect(
        corrupted.view_as(batch.texts.input_ids), batch.mask, positions=batch.token_positions
    )
    real = batch.texts.attention_mask
    if real is not None:
        logits, replaced = logits[real], replaced[real]
    detection = F.binary_cross_entropy_with_logits(logits.float(), replaced.float())
    return DETECTION_WEIGHT * len(batch.labels) * detection
