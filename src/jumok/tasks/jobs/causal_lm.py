"""Training job of causal language modeling: packed windows of documents, bits per byte."""

import numpy as np
from torch import Tensor

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
from jumok.tasks.inputs.windows import Windows, concatenate
from jumok.tasks.jobs.recipe_job import RecipeJob
from jumok.training.job import DevResult


class CausalLMJob(RecipeJob[PackedBatch]):
    """Trains a language model with cross-entropy of the next token."""

    model: LanguageModel

    def prepare(self, splits: Splits) -> None:
        """Tokenize the documents."""
        self.train, self.dev = (
            TokenizedDocuments.of(table.column("text"), self.tokenizer)
            for table in (splits.train, splits.dev)
        )

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
        return self.dev_result(scores.loss, scores)
