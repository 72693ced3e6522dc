"""What the training jobs of all tasks share: the parts of a run and the order of an epoch."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.data.packing import length_batches
from jumok.data.resumable_loader import Epoch
from jumok.data.splits import Splits
from jumok.evaluation.own_metric import own_scores
from jumok.nn.losses import own_loss
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.seeding import derive_seed, permutation
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
from jumok.tasks.recipe.recipe import Recipe
from jumok.training.job import BatchT, DevResult


class RecipeJob(ABC, Generic[BatchT]):
    """Abstract: trains a recipe's model on the training split, evaluates it on the dev split."""

    def __init__(
        self,
        recipe: Recipe,
        model: nn.Module,
        tokenizers: TokenizerPair,
        splits: Splits,
        device: torch.device,
    ) -> None:
        self.recipe, self.model, self.device = recipe, model, device
        self.tokenizers, self.tokenizer = tokenizers, tokenizers.source
        self.prepare(splits)

    @abstractmethod
    def prepare(self, splits: Splits) -> None:
        """Encode the training and the development split."""

    def initialize(self) -> None:  # most tasks need none
        """Set initial weights that follow from the training split; called before the first step."""

    @abstractmethod
    def epoch(self, number: int) -> Epoch[BatchT]:
        """The batches of an epoch, in its order and with its augmentation."""

    @abstractmethod
    def loss(self, batch: BatchT) -> Tensor:
        """The loss of a batch, summed over its targets: ()."""

    @abstractmethod
    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """The recipe's metric on the development split and the mean loss of its targets."""

    def index_batches(self, lengths: NDArray[np.int64], number: int) -> list[NDArray[np.int64]]:
        """The examples of each batch of an epoch: shuffled, with similar lengths together.

        lengths (n,) or (n, sides).
        """
        seed = self.recipe.seed
        order = permutation(len(lengths), seed, number)
        rng = np.random.Generator(np.random.Philox(derive_seed(seed, "batches", number)))
        return length_batches(lengths, order, self.recipe.training.batch_tokens, rng)

    @property
    def own_loss(self) -> Callable[..., Tensor] | None:
        """The loss that the recipe names; None: that of the task."""
        return own_loss(self.recipe.loss) if self.recipe.loss else None

    def dev_result(
        self,
        loss: float,
        metrics: object,
        expected: Sequence[Any] = (),
        predicted: Sequence[Any] = (),
    ) -> DevResult:
        """The mean loss, and the recipe's metric: an attribute of `metrics`, or one's own."""
        metric = self.recipe.selection_metric
        own = own_scores(self.recipe.metric, expected, predicted)
        score = own[metric] if own else float(getattr(metrics, metric))
        return DevResult(loss, score, metric, len(expected))
