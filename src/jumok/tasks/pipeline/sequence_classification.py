"""What the tasks share that answer a text, or a pair of texts, as a whole.

Shapes: B or n texts, L outputs of the model: one for each label, or one alone.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.models import EncoderDecoderClassifier, TextClassifier
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.tasks.inputs.batches import (
    ANSWERING_TOKENS,
    LazyBatches,
    PaddedBatch,
    in_order_of_length,
    padded,
)
from jumok.tasks.inputs.special_tokens import filler, target_begin
from jumok.tasks.inputs.text_encoder import TextInputs, is_told_segments, segments_of
from jumok.tasks.jobs.epoch_sampler import EpochSampler
from jumok.tasks.pipeline.distributed_map import TENSOR_CODEC, in_turns
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Vocabulary


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


def text_epoch(epochs: EpochSampler, train: LabelledTexts, number: int) -> LazyBatches[TextBatch]:
    """The batches of an epoch, with what is wanted for each text."""
    wanted = torch.from_numpy(train.labels)

    def batch(texts: PaddedBatch, rows: NDArray[np.int64]) -> TextBatch:
        return TextBatch(texts, wanted[rows].to(epochs.device), epochs.two_views)

    return epochs.batches(number, batch)


def outputs(model: nn.Module, texts: PaddedBatch, vocabulary: Vocabulary) -> Tensor:
    """What the model says to a batch, (B, L); it learns from [SEP] which token is of which text.

    A decoder, where there is one, is given [BOS] as in note 002.
    """
    assert isinstance(model, TextClassifier | EncoderDecoderClassifier)
    table = model.encoder.embedding.segments  # of RoBERTa one row: all texts are of segment 0
    n_segments = 0 if table is None else table.num_embeddings
    told = is_told_segments(vocabulary, n_segments, getattr(model, "pooling", "first"))
    segments = segments_of(texts.input_ids, vocabulary.sep_id) if told else None
    if isinstance(model, EncoderDecoderClassifier):
        begin = torch.full(
            (len(texts.input_ids), 1), target_begin(vocabulary), device=texts.input_ids.device
        )
        return model(texts.input_ids, begin, texts.attention_mask, segments=segments)  # type: ignore[no-any-return]
    return model(texts.input_ids, texts.attention_mask, segments=segments)  # type: ignore[no-any-return]


@torch.inference_mode()
def answer_all(
    model: nn.Module,
    rows: Ragged,
    vocabulary: Vocabulary,
    device: torch.device,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> Tensor:
    """The outputs (n, L) float32 on the CPU for every row, in the order of the rows."""

    def answer(batch: NDArray[np.int64]) -> dict[str, Tensor]:
        texts = padded([rows[i] for i in batch], filler(vocabulary), device)
        return {"outputs": outputs(model, texts, vocabulary).float().cpu()}

    plan = in_order_of_length(rows, ANSWERING_TOKENS)
    parts = in_turns(plan, answer, processes, TENSOR_CODEC)
    if not parts:
        return torch.empty(0, 0)
    found = torch.cat([part["outputs"] for part in parts])
    back = torch.from_numpy(np.argsort(np.concatenate(plan), kind="stable"))
    return found[back]
