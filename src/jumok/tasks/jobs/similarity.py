"""The training job of vectors of texts: scores of pairs, or pairs that belong together.

Shapes: B pairs, D model width.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from jumok.data.splits import Splits
from jumok.evaluation import regression_metrics
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.tasks.inputs.batches import LazyBatches, PaddedBatch, collate
from jumok.tasks.inputs.unlabelled_texts import unlabelled_texts
from jumok.tasks.jobs.recipe_job import RecipeJob
from jumok.tasks.pipeline.sequence_classification import forward
from jumok.tasks.similarity import (
    cosines,
    pair_with_itself,
    read_pairs,
    retrieval,
    vectors_of,
)
from jumok.training.job import DevResult


@dataclass(frozen=True)
class TextPairBatch:
    """Both texts of pairs, padded separately, and the target of each pair."""

    first: PaddedBatch
    second: PaddedBatch
    targets: Tensor  # (B,) float32
    has_scores: bool

    @property
    def tokens(self) -> int:
        """The number of tokens without padding."""
        return self.first.n_tokens + self.second.n_tokens

    @property
    def n_targets(self) -> int:
        """The number of scores, or of pairs that belong together."""
        return len(self.targets) if self.has_scores else max(int(self.targets.sum()), 1)


class SimilarityJob(RecipeJob[TextPairBatch]):
    """Trains a `SentenceEncoder` by scores, or by the other texts of a batch."""

    def prepare(self, splits: Splits) -> None:
        """Encode both texts of each pair, or plain texts as pairs of the same text."""
        texts = unlabelled_texts(self.recipe.similarity, splits)
        if texts:
            self.train = pair_with_itself(texts, self.tokenizer, self.recipe)
        else:
            self.train = read_pairs(splits.train, self.tokenizer, self.recipe)
        self.dev = read_pairs(splits.dev, self.tokenizer, self.recipe)

    def epoch(self, number: int) -> LazyBatches[TextPairBatch]:
        """The batches of an epoch, with pairs of similar length together."""

        def build(examples: NDArray[np.int64]) -> TextPairBatch:
            first, second = (
                collate([rows[i] for i in examples], self.tokenizer.padding_id, self.device)
                for rows in (self.train.first, self.train.second)
            )
            targets = torch.from_numpy(self.train.targets[examples]).to(self.device)
            return TextPairBatch(first, second, targets, self.train.has_scores)

        return LazyBatches(self.index_batches(self.train.lengths, number), build)

    def loss(self, batch: TextPairBatch) -> Tensor:
        """With scores (cosine - score)^2, otherwise the multiple negatives ranking loss; a sum.

        That loss is the cross-entropy of the second text of a pair among all second texts of the
        batch, by their cosines over the temperature (Henderson et al. 2017, section 4.4); other
        copies of the same second text are no candidates. Both texts are read separately, so the
        vectors of a text that is a pair with itself differ by dropout (SimCSE, Gao et al. 2021,
        section 3).
        """
        u, v = (forward(self.model, texts, self.tokenizer) for texts in (batch.first, batch.second))
        if batch.has_scores:
            return F.mse_loss(cosines(u, v), batch.targets, reduction="sum")
        logits = u @ v.T / self.recipe.similarity.temperature  # (B, B)
        logits = logits.masked_fill(_other_copies(batch.second.input_ids), -torch.inf)
        positives = batch.targets.nonzero()[:, 0]
        return F.cross_entropy(logits[positives], positives, reduction="sum")

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """The correlation with the scores of the dev split, or the accuracy of retrieval."""
        u, v = vectors_of(self.model, self.dev, self.tokenizer, self.device, processes)
        if not self.dev.has_scores:
            loss, accuracy = retrieval(u, v, self.dev.targets, self.recipe)
            return DevResult(loss, accuracy, "accuracy")
        found = cosines(u, v).numpy()
        loss = float(np.mean((found - self.dev.targets) ** 2))
        return self.dev_result(loss, regression_metrics(self.dev.targets.tolist(), found.tolist()))


def _other_copies(ids: Tensor) -> Tensor:
    """Whether a row is another copy of the same text: (B, T) -> (B, B) bool, False at [i, i].

    >>> _other_copies(torch.tensor([[7, 8], [7, 9], [7, 8]])).int().tolist()
    [[0, 0, 1], [0, 0, 0], [1, 0, 0]]
    """
    same = (ids[:, None] == ids).all(-1)
    return same & ~torch.eye(len(ids), dtype=torch.bool, device=ids.device)
