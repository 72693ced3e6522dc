"""A training job on random texts, for benchmarks of the trainer alone."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jumok.models import TextClassifier, TransformerConfig
from jumok.nn.losses import cross_entropy
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.tasks.inputs.batches import LazyBatches, PaddedBatch
from jumok.tasks.shared.encoder_job import LabelledBatch
from jumok.training.job import DevResult


class RandomTextsJob:
    """A classifier of random texts: `n_batches` batches of `texts` texts of `length` tokens."""

    def __init__(self, config: TransformerConfig, texts: int, length: int, n_batches: int) -> None:
        torch.manual_seed(0)
        self.model = TextClassifier(config, 2, "mean")
        self.config, self.shape, self.n_batches = config, (texts, length), n_batches

    def epoch(self, number: int) -> LazyBatches[LabelledBatch]:
        """The batches of an epoch; they differ from batch to batch and from epoch to epoch."""

        def build(rows: NDArray[np.int64]) -> LabelledBatch:
            generator = torch.Generator().manual_seed(number + int(rows[0]))
            ids = torch.randint(self.config.vocabulary_size, self.shape, generator=generator)
            return LabelledBatch(PaddedBatch(ids, None), ids[:, 0] % 2)

        return LazyBatches(np.split(np.arange(self.n_batches), self.n_batches), build)

    def loss(self, batch: LabelledBatch) -> Tensor:
        """The cross-entropy of the labels, summed."""
        return cross_entropy(self.model(batch.texts.input_ids), batch.labels)

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """A forward pass of one text; its score means nothing."""
        self.model(torch.zeros(1, self.shape[1], dtype=torch.long))
        return DevResult(0.0, 0.0, "accuracy")
