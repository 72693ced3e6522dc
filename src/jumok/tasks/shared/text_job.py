"""What the jobs of models with one output per text, or pair of texts, share."""

from abc import abstractmethod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.tasks.inputs.text_encoder import LabelledTexts, TextEncoder
from jumok.tasks.shared.encoder_job import EncoderJob


class TextJob(EncoderJob):
    """Abstract: the labels of each text, or its score."""

    def prepare(self, splits: Splits) -> None:
        """Encode the texts, and turn their labels into numbers."""
        self.encode = TextEncoder(self.tokenizer, self.recipe.model.max_length)
        self.train, self.dev = self._read(splits.train, splits), self._read(splits.dev, splits)
        self.texts, self.ids = self.train.texts, self.train.ids

    @abstractmethod
    def _read(self, table: Table, splits: Splits) -> LabelledTexts: ...

    def labels_of(self, examples: NDArray[np.int64]) -> Tensor:
        """The label ids or scores of these training texts, (B,), or their label sets, (B, L)."""
        return torch.from_numpy(self.train.labels[examples]).to(self.device)
