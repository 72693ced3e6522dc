"""What the jobs of models with one output per text, or pair of texts, share."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.tasks.inputs.text_encoder import LabelledTexts, TextEncoder
from jumok.tasks.pipeline.sequence_classification import predict_all
from jumok.tasks.shared.encoder_job import EncoderJob
from jumok.training.job import DevResult

if TYPE_CHECKING:  # most trainings fit no linear model
    from jumok.training.linear_models import Loss


class TextJob(EncoderJob):
    """Abstract: the labels of each text, or its score."""

    linear_loss: "ClassVar[Loss]"  # of its outputs, for a linear model of frozen vectors

    def prepare(self, splits: Splits) -> None:
        """Encode the texts, and turn their labels into numbers."""
        self.encode = TextEncoder(self.tokenizer, self.recipe.model.max_length)
        self.train, self.dev = self._read(splits.train, splits), self._read(splits.dev, splits)
        self.texts, self.ids = self.train.texts, self.train.ids

    @abstractmethod
    def _read(self, table: Table, splits: Splits) -> LabelledTexts: ...

    @abstractmethod
    def score(self, outputs: Tensor, labels: NDArray[Any]) -> DevResult:
        """The recipe's metric and the mean loss of outputs (n, L) of texts with these labels."""

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """The recipe's metric on the development texts, and their mean loss."""
        outputs = predict_all(self.model, self.dev.ids, self.tokenizer, self.device, processes)
        return self.score(outputs, self.dev.labels)

    def labels_of(self, examples: NDArray[np.int64]) -> Tensor:
        """The label ids or scores of these training texts, (B,), or their label sets, (B, L)."""
        return torch.from_numpy(self.train.labels[examples]).to(self.device)
