"""The training job of replaced token detection: that of masked tokens, and the detection loss.

Shapes: B texts, T tokens, D model width, M masked tokens.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from jumok.lab.models.replaced_tokens import ReplacedTokenModel, sample_tokens
from jumok.tasks.jobs.masked_lm import MaskedLMJob
from jumok.tasks.masked_lm import MaskedBatch

DETECTION_WEIGHT = 50.0  # lambda in section 3.3 of Clark et al.


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
