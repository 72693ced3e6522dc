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
    Batches,
    PaddedIds,
    in_order_of_length,
    padded,
)
from jumok.tasks.inputs.special_tokens import filler, target_begin
from jumok.tasks.inputs.text_encoder import Texts, is_told_segments, segments_of
from jumok.tasks.jobs.epoch_sampler import Epochs
from jumok.tasks.pipeline.distributed_map import TENSORS, in_turns
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Vocabulary


@dataclass(frozen=True)
class TextBatch:
    """Texts of like length and what is wanted for each: labels' numbers or scores, (B,).

    With `twice` the second half are the texts of the first half, augmented in another way.
    """

    texts: PaddedIds
    wanted: Tensor
    twice: bool = False

    @property
    def tokens(self) -> int:
        """Real tokens."""
        return self.texts.n_real

    @property
    def n_targets(self) -> int:
        """Texts."""
        return len(self.wanted)


@dataclass(frozen=True)
class KnownTexts:
    """Texts, the ids a model reads of them, and what is wanted: int64 labels or float32 scores."""

    texts: Texts
    ids: Ragged
    wanted: NDArray[Any]  # (n,)


def text_epoch(epochs: Epochs, train: KnownTexts, number: int) -> Batches[TextBatch]:
    """The batches of an epoch, with what is wanted for each text."""
    wanted = torch.from_numpy(train.wanted)

    def batch(texts: PaddedIds, rows: NDArray[np.int64]) -> TextBatch:
        return TextBatch(texts, wanted[rows].to(epochs.device), epochs.twice)

    return epochs.batches(number, batch)


def outputs(model: nn.Module, texts: PaddedIds, vocabulary: Vocabulary) -> Tensor:
    """What the model says to a batch, (B, L); it learns from [SEP] which token is of which text.

    A decoder, where there is one, is given [BOS] as in note 002.
    """
    assert isinstance(model, TextClassifier | EncoderDecoderClassifier)
    table = model.encoder.embedding.segments  # of RoBERTa one row: all texts are of segment 0
    n_segments = 0 if table is None else table.num_embeddings
    told = is_told_segments(vocabulary, n_segments, getattr(model, "pooling", "first"))
    segments = segments_of(texts.ids, vocabulary.sep_id) if told else None
    if isinstance(model, EncoderDecoderClassifier):
        begin = torch.full((len(texts.ids), 1), target_begin(vocabulary), device=texts.ids.device)
        return model(texts.ids, begin, texts.real, segments=segments)  # type: ignore[no-any-return]
    return model(texts.ids, texts.real, segments=segments)  # type: ignore[no-any-return]


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
    parts = in_turns(plan, answer, processes, TENSORS)
    if not parts:
        return torch.empty(0, 0)
    found = torch.cat([part["outputs"] for part in parts])
    back = torch.from_numpy(np.argsort(np.concatenate(plan), kind="stable"))
    return found[back]
