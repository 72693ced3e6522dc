"""What the tasks share that answer a text, or a pair of texts, as a whole.

Shapes: B or n texts, L outputs of the model: one for each label, or one alone.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.models import EncoderDecoderClassifier, PairClassifier, TextClassifier
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.tasks.inputs.batches import (
    EVAL_BATCH_TOKENS,
    LazyBatches,
    PaddedBatch,
    batches_by_length,
    collate,
)
from jumok.tasks.inputs.special_tokens import decoder_start_id, pad_id_or_zero
from jumok.tasks.inputs.text_encoder import TextInputs, token_type_ids, uses_token_types
from jumok.tasks.jobs.epoch_sampler import EpochSampler
from jumok.tasks.pipeline.distributed_map import TENSOR_CODEC, distributed_map
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class TextBatch:
    """Texts of like length and what is wanted for each: labels' numbers or scores, (B,).

    With `twice` the second half are the texts of the first half, augmented in another way.
    """

    texts: PaddedBatch
    labels: Tensor
    two_views: bool = False

    @property
    def tokens(self) -> int:
        """Real tokens."""
        return self.texts.n_tokens

    @property
    def n_targets(self) -> int:
        """Texts."""
        return len(self.labels)


@dataclass(frozen=True)
class LabelledTexts:
    """Texts, the ids a model reads of them, and what is wanted: int64 labels or float32 scores."""

    texts: TextInputs
    ids: Ragged
    labels: NDArray[Any]  # (n,)


def epoch_batches(
    epochs: EpochSampler, train: LabelledTexts, number: int
) -> LazyBatches[TextBatch]:
    """The batches of an epoch, with what is wanted for each text."""
    wanted = torch.from_numpy(train.labels)

    def batch(texts: PaddedBatch, rows: NDArray[np.int64]) -> TextBatch:
        return TextBatch(texts, wanted[rows].to(epochs.device), epochs.two_views)

    return epochs.batches(number, batch)


def forward(model: nn.Module, texts: PaddedBatch, vocabulary: Tokenizer) -> Tensor:
    """What the model says to a batch, (B, L); it learns from [SEP] which token is of which text.

    A decoder, where there is one, is given [BOS] as in note 002.
    """
    assert isinstance(model, TextClassifier | PairClassifier | EncoderDecoderClassifier)
    table = model.encoder.embedding.segments  # of RoBERTa one row: all texts are of segment 0
    n_segments = 0 if table is None else table.num_embeddings
    told = uses_token_types(
        vocabulary, n_segments, "compare" if isinstance(model, PairClassifier) else "first"
    )
    segments = token_type_ids(texts.input_ids, vocabulary.sep_id) if told else None
    if isinstance(model, EncoderDecoderClassifier):
        begin = torch.full(
            (len(texts.input_ids), 1), decoder_start_id(vocabulary), device=texts.input_ids.device
        )
        return model(texts.input_ids, begin, texts.attention_mask, segments=segments)  # type: ignore[no-any-return]
    return model(texts.input_ids, texts.attention_mask, segments=segments)  # type: ignore[no-any-return]


@torch.inference_mode()
def predict_all(
    model: nn.Module,
    rows: Ragged,
    vocabulary: Tokenizer,
    device: torch.device,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> Tensor:
    """The outputs (n, L) float32 on the CPU for every row, in the order of the rows."""

    def answer(batch: NDArray[np.int64]) -> dict[str, Tensor]:
        texts = collate([rows[i] for i in batch], pad_id_or_zero(vocabulary), device)
        return {"outputs": forward(model, texts, vocabulary).float().cpu()}

    plan = batches_by_length(rows, EVAL_BATCH_TOKENS)
    parts = distributed_map(plan, answer, processes, TENSOR_CODEC)
    if not parts:
        return torch.empty(0, 0)
    found = torch.cat([part["outputs"] for part in parts])
    back = torch.from_numpy(np.argsort(np.concatenate(plan), kind="stable"))
    return found[back]
