"""Language modelling: every token from those before it, and a text continued.

Documents stand end to end in rows of one width, each between [BOS] and [EOS]; a document attends
to itself alone, its positions beginning at 0, unless `windows.across_documents` makes one stream of
all. Shapes: R rows, W tokens, N tokens foreseen, V vocabulary.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from unicodedata import normalize

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.data.packing import plan_packing
from jumok.data.splits import TEXTS, Splits
from jumok.data.table import Table
from jumok.data.token_cache import encode_cached
from jumok.decoding import DecodingConfig
from jumok.errors import InputError
from jumok.evaluation.language_models import LanguageModelMetrics
from jumok.models import LanguageModel
from jumok.nn.fused_linear_cross_entropy import fused_linear_cross_entropy
from jumok.nn.masks import AttentionMask
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.seeding import derive_seed, permutation
from jumok.tasks.inputs.batches import EVAL_BATCH_TOKENS, LazyBatches
from jumok.tasks.inputs.windows import Windows, add_bos_eos, concatenate
from jumok.tasks.pipeline.causal_generation import generate, stream
from jumok.tasks.pipeline.distributed_map import JSON_CODEC, distributed_map
from jumok.tasks.pipeline.outputs import EvaluationResult
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import ModelConfig
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer, unk_id
from jumok.training.job import DevResult

if TYPE_CHECKING:
    from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
    from jumok.tasks.pipeline.outputs import GeneratedText
    from jumok.tasks.pipeline.pipeline import Pipeline


@dataclass(frozen=True)
class PackedBatch:
    """Rows of tokens (R, W), the token wanted after each, and where a prediction counts."""

    ids: Tensor  # (R, W)
    labels: Tensor  # (R, W)
    window_ids: Tensor | None  # (R, W): who attends to whom; None when each row is one window
    positions: Tensor | None  # (R, W); None when they count from 0
    loss_mask: Tensor | None  # (R, W) bool; None when all count
    tokens: int  # real ones
    n_targets: int  # that count


@dataclass(frozen=True)
class TokenizedDocuments:
    """The ids of texts, each between [BOS] and [EOS], and their bytes (UTF-8, letters composed)."""

    rows: Ragged
    bytes: int

    def count(self, id_: int) -> int:
        """How often an id stands between the first and the last of a text."""
        inside = np.ones(len(self.rows.ids), dtype=np.bool_)
        inside[self.rows.offsets[:-1]] = inside[self.rows.offsets[1:] - 1] = False
        return int((self.rows.ids[inside] == id_).sum())

    @classmethod
    def of(cls, texts: Sequence[str], vocabulary: Tokenizer) -> "TokenizedDocuments":
        """Texts as a language model reads them."""
        rows = add_bos_eos(encode_cached(texts, vocabulary), vocabulary.bos_id, vocabulary.eos_id)
        return cls(rows, sum(len(normalize("NFC", text).encode()) for text in texts))


class CausalLMJob:
    """What a trainer needs to train a language model by a recipe."""

    def __init__(
        self,
        recipe: Recipe,
        model: LanguageModel,
        vocabulary: Tokenizer,
        train: TokenizedDocuments,
        dev: TokenizedDocuments,
        device: torch.device,
    ) -> None:
        self.recipe, self.model, self.vocabulary = recipe, model, vocabulary
        self.train, self.dev, self.device = train, dev, device

    def epoch(self, number: int) -> LazyBatches[PackedBatch]:
        """Every token once, in windows that stand elsewhere in long documents every time."""
        seed, width = self.recipe.seed, self.recipe.model.max_length
        documents, texts = self.train.rows, None
        if self.recipe.windows.across_documents:
            documents = documents.take(permutation(len(documents), seed, number))
            documents, texts = concatenate(documents), documents.offsets[:-1]
        rng = np.random.Generator(np.random.Philox(derive_seed(seed, "windows", number)))
        first = rng.integers(1, width + 1, len(documents))
        windows = Windows.over(documents, width, first=first, texts=texts)
        order = permutation(len(windows), derive_seed(seed, "order of windows"), number)
        return packed_batches(
            windows, order, width, self.recipe.training.batch_tokens, self.vocabulary, self.device
        )

    def loss(self, batch: PackedBatch) -> Tensor:
        """Cross-entropy of each next token, summed over those that count."""
        return next_token_loss(self.model, batch, self.recipe.training.label_smoothing)

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """Perplexity or bits per byte of the development texts, and their mean loss a token."""
        scores = score_documents(
            self.model, self.dev, self.recipe, self.vocabulary, self.device, processes
        )
        metric = self.recipe.selection_metric
        return DevResult(scores.loss, float(getattr(scores, metric)), metric)


class CausalLMTask:
    """The task: texts alone, each token from those before it."""

    def columns(self, recipe: Recipe) -> tuple[str, ...]:
        """A text."""
        return TEXTS

    def vocabulary_texts(self, recipe: Recipe, train: Table) -> Iterator[str]:
        """The training texts."""
        yield from train.column("text")

    def build_model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """A decoder alone."""
        return LanguageModel(config)

    def build_job(
        self,
        recipe: Recipe,
        model: nn.Module,
        vocabularies: "TokenizerPair",
        splits: Splits,
        device: torch.device,
    ) -> CausalLMJob:
        """What a trainer needs."""
        assert isinstance(model, LanguageModel)
        train, dev = (
            TokenizedDocuments.of(table.column("text"), vocabularies.source)
            for table in (splits.train, splits.dev)
        )
        return CausalLMJob(recipe, model, vocabularies.source, train, dev, device)

    def evaluate(self, loaded: "Pipeline", table: Table, split: str) -> EvaluationResult:
        """Perplexity a token and bits a byte; `unknown` is the share of tokens that are [UNK].

        Raises InputError for runs that write together: these are scores of one model.
        """
        assert isinstance(loaded.model, LanguageModel)
        if loaded.ensemble_models:
            raise InputError(
                f"{1 + len(loaded.ensemble_models)} language models that write together came, and "
                "perplexity is that of one; score each by itself, without --with"
            )
        documents = TokenizedDocuments.of(table.column("text"), loaded.vocabulary)
        found = score_documents(
            loaded.model,
            documents,
            loaded.recipe,
            loaded.vocabulary,
            loaded.device,
            loaded.processes,
        )
        unknown = documents.count(unk_id(loaded.vocabulary))
        return EvaluationResult(
            {
                "task": loaded.recipe.task,
                "split": split,
                "n": found.n,
                "perplexity": found.perplexity,
                "bits_per_byte": found.bits_per_byte,
                "tokens": found.tokens,
                "bytes": found.bytes,
                "unknown": unknown / max(found.tokens, 1),
            }
        )

    def predict(self, loaded: "Pipeline", texts: Sequence[str]) -> "list[GeneratedText]":
        """How each text goes on: the continuation alone."""
        return generate(loaded, texts)

    def effective_decoding(self, loaded: "Pipeline") -> DecodingConfig:
        """What the recipe says: a text may grow beyond what the model holds at once.

        It has no source whose length could limit it.
        """
        return replace(loaded.recipe.decoding, max_ratio=0.0)

    def stream(
        self, loaded: "Pipeline", text: str, on_text: Callable[[str], None]
    ) -> "GeneratedText":
        """The continuation of one text, its parts given out as soon as they are certain."""
        return stream(loaded, text, on_text)


def packed_batches(
    windows: Windows,
    order: NDArray[np.int64],
    width: int,
    batch_tokens: int,
    vocabulary: Tokenizer,
    device: torch.device,
) -> LazyBatches[PackedBatch]:
    """The windows, packed in this order into rows of one width, so many tokens at a time."""
    rows = plan_packing(windows.lengths, order, width)
    n_rows = max(batch_tokens // width, 1)
    plan = [np.arange(a, min(a + n_rows, len(rows))) for a in range(0, len(rows), n_rows)]

    def make(numbers: NDArray[np.int64]) -> PackedBatch:
        box = windows.to_rows([rows[i] for i in numbers], width, vocabulary.padding_id)
        counted = box.loss_mask

        def tensor(array: NDArray[np.generic]) -> Tensor:
            return torch.from_numpy(array).to(device)

        return PackedBatch(
            ids=tensor(box.ids),
            labels=tensor(box.labels),
            window_ids=None if box.unpacked else tensor(box.window_ids),
            positions=None if box.unpacked else tensor(box.positions),
            loss_mask=None if counted.all() else tensor(counted),
            tokens=int((box.window_ids >= 0).sum()),
            n_targets=int(counted.sum()),
        )

    return LazyBatches(plan, make)


def next_token_loss(
    model: LanguageModel, batch: PackedBatch, label_smoothing: float = 0.0
) -> Tensor:
    """-log p of the tokens that count, summed: ()."""
    mask = None
    if batch.window_ids is not None:
        mask = AttentionMask.from_segments(batch.window_ids, causal=True)
    hidden = model.decoder(batch.ids, mask, positions=batch.positions)  # (R, W, D)
    if batch.loss_mask is None:
        hidden, wanted = hidden.flatten(0, 1), batch.labels.flatten()
    else:
        hidden, wanted = hidden[batch.loss_mask], batch.labels[batch.loss_mask]  # (N, D), (N,)
    return fused_linear_cross_entropy(hidden, model.output, wanted, label_smoothing=label_smoothing)


@torch.inference_mode()
def score_documents(
    model: LanguageModel,
    documents: TokenizedDocuments,
    recipe: Recipe,
    vocabulary: Tokenizer,
    device: torch.device,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> LanguageModelMetrics:
    """Every token of the documents foreseen once, with the context that the recipe states."""
    width, overlap = recipe.model.max_length, recipe.windows.overlap
    across = recipe.windows.across_documents
    rows = concatenate(documents.rows) if across else documents.rows
    texts = documents.rows.offsets[:-1] if across else None
    windows = Windows.over(rows, width, int(width * overlap), texts=texts)
    order = np.arange(len(windows))
    parts = packed_batches(windows, order, width, EVAL_BATCH_TOKENS, vocabulary, device)

    def score(number: int) -> tuple[float, int]:
        batch = parts[number]
        return next_token_loss(model, batch).item(), batch.n_targets

    nats, tokens = 0.0, 0
    for loss, units in distributed_map(range(len(parts)), score, processes, JSON_CODEC):
        nats += loss
        tokens += units
    return LanguageModelMetrics(len(documents.rows), tokens, documents.bytes, nats)
