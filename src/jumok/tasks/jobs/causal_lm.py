"""Training job of causal language modeling: packed windows of documents, bits per byte."""

import numpy as np
import torch
from torch import Tensor, nn

from jumok.data.splits import Splits
from jumok.models import LanguageModel
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.seeding import derive_seed, permutation
from jumok.tasks.causal_lm import (
    PackedBatch,
    TokenizedDocuments,
    next_token_loss,
    packed_batches,
    score_documents,
)
from jumok.tasks.inputs.batches import LazyBatches
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
from jumok.tasks.inputs.windows import Windows, concatenate
from jumok.tasks.recipe.recipe import Recipe
from jumok.text.tokenizer import Tokenizer
from jumok.training.job import DevResult


class CausalLMJob:
    """Trains a language model with cross-entropy of the next token."""

    def __init__(
        self,
        recipe: Recipe,
        model: LanguageModel,
        tokenizer: Tokenizer,
        train: TokenizedDocuments,
        dev: TokenizedDocuments,
        device: torch.device,
    ) -> None:
        self.recipe, self.model, self.tokenizer = recipe, model, tokenizer
        self.train, self.dev, self.device = train, dev, device

    @classmethod
    def from_splits(
        cls,
        recipe: Recipe,
        model: nn.Module,
        tokenizers: TokenizerPair,
        splits: Splits,
        device: torch.device,
    ) -> "CausalLMJob":
        """The job of a recipe and its data."""
        assert isinstance(model, LanguageModel)
        train, dev = (
            TokenizedDocuments.of(table.column("text"), tokenizers.source)
            for table in (splits.train, splits.dev)
        )
        return cls(recipe, model, tokenizers.source, train, dev, device)

    def epoch(self, number: int) -> LazyBatches[PackedBatch]:
        """Every token once; the windows of long documents start elsewhere in every epoch."""
        seed, width = self.recipe.seed, self.recipe.model.max_length
        documents, texts = self.train.rows, None
        if self.recipe.windows.across_documents:
            documents = documents.take(permutation(len(documents), seed, number))
            documents, texts = concatenate(documents), documents.offsets[:-1]
        rng = np.random.Generator(np.random.Philox(derive_seed(seed, "windows", number)))
        first = rng.integers(1, width + 1, len(documents))
        windows = Windows.over(documents, width, first=first, texts=texts)
        order = permutation(len(windows), derive_seed(seed, "order of windows"), number)
        batch_tokens = self.recipe.training.batch_tokens
        return packed_batches(windows, order, width, batch_tokens, self.tokenizer, self.device)

    def loss(self, batch: PackedBatch) -> Tensor:
        """Cross-entropy of each next token, summed over those that count."""
        return next_token_loss(self.model, batch, self.recipe.training.label_smoothing)

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """Perplexity or bits per byte of the development texts, and their mean loss per token."""
        scores = score_documents(
            self.model,
            self.dev,
            self.recipe.model.max_length,
            self.recipe.windows,
            self.tokenizer,
            self.device,
            processes,
        )
        metric = self.recipe.selection_metric
        return DevResult(scores.loss, float(getattr(scores, metric)), metric)
