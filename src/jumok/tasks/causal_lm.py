"""Causal language modeling: each token is predicted from those before it; texts are continued.

Documents, each between [BOS] and [EOS], are packed into rows of one width. A document attends to
itself only and its positions start at 0, unless `windows.across_documents` makes one stream of all.
Shapes: R rows, W tokens, N target tokens, D model width.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.data.packing import plan_packing
from jumok.data.resumable_loader import Epoch
from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.data.token_cache import encode_cached
from jumok.decoding import DecodingConfig
from jumok.decoding.callbacks import StepCallback
from jumok.decoding.finite import non_finite_error
from jumok.errors import InputError
from jumok.evaluation.language_models import LanguageModelMetrics
from jumok.models import LanguageModel
from jumok.models.heads import SoftcappedLinear
from jumok.native.kernel_choice import KernelChoice
from jumok.nn.fused_linear_cross_entropy import fused_linear_cross_entropy
from jumok.nn.masks import AttentionMask
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.seeding import derive_seed, permutation
from jumok.tasks.inputs.batches import EVAL_BATCH_TOKENS, LazyBatches, ShardedBatches
from jumok.tasks.inputs.windows import Windows, concatenate
from jumok.tasks.pipeline.causal_generation import generate, generate_from_ids, prompt_ids, stream
from jumok.tasks.pipeline.distributed_map import JSON_CODEC, distributed_map
from jumok.tasks.pipeline.generated import Generated
from jumok.tasks.pipeline.generation_pipeline import as_generation
from jumok.tasks.pipeline.outputs import EvaluationResult, GeneratedText
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import ModelConfig, WindowConfig
from jumok.tasks.shared.recipe_job import RecipeJob
from jumok.tasks.task import GenerativeTask
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer, unk_id
from jumok.training.job import DevResult
from jumok.unicode_forms import normalize

LARGE_TOKENS = 2**26  # from which data are shuffled and scored in shards: some 400 MB of Korean
SHARD_TOKENS = 2**23  # whose windows are in memory at a time
BLOCK_TOKENS = 2**16  # of documents that follow each other in a file and are in one shard


@dataclass(frozen=True)
class PackedBatch:
    """Packed rows of tokens, the next token of each, and which of them count in the loss."""

    ids: Tensor  # (R, W)
    labels: Tensor  # (R, W)
    window_ids: Tensor | None  # (R, W); attention is within a window. None: one window per row
    positions: Tensor | None  # (R, W); None: from 0 in each row
    loss_mask: Tensor | None  # (R, W) bool; None: all tokens count
    tokens: int  # without padding
    n_targets: int  # that count


@dataclass(frozen=True)
class TokenizedDocuments:
    """The ids of texts with special tokens, and the texts."""

    rows: Ragged
    texts: Sequence[str]
    content: Ragged  # the rows, or the ids of the texts without special tokens
    ends: tuple[int, ...]  # special tokens of each row of `content`

    @cached_property
    def bytes(self) -> int:
        """The length of the texts in bytes (UTF-8, NFC)."""
        return sum(len(normalize("NFC", text).encode()) for text in self.texts)

    def count(self, id_: int) -> int:
        """How often an id occurs in the texts, without special tokens."""
        return int((self.content.ids == id_).sum()) - len(self.rows) * self.ends.count(id_)

    @property
    def is_large(self) -> bool:
        """Whether they are read in shards of some SHARD_TOKENS tokens."""
        return len(self.rows.ids) >= LARGE_TOKENS

    def shards(self) -> Iterator[Ragged]:
        """All rows in their order, in shards if they are large."""
        bounds = self.rows.blocks(SHARD_TOKENS) if self.is_large else [0, len(self.rows)]
        return (self.rows.between(first, stop) for first, stop in pairwise(bounds))

    @classmethod
    def of(cls, texts: Sequence[str], tokenizer: Tokenizer) -> "TokenizedDocuments":
        """Tokenize texts as documents of a language model, each between [BOS] and [EOS]."""
        bos, eos = tokenizer.bos_id, tokenizer.eos_id
        rows = encode_cached(texts, tokenizer, before=[bos], after=[eos])
        return cls(rows, texts, rows, (bos, eos))

    @classmethod
    def as_imported(cls, texts: Sequence[str], tokenizer: Tokenizer) -> "TokenizedDocuments":
        """Tokenize texts with the template of an imported tokenizer: the ids of AutoTokenizer."""
        ids = encode_cached(texts, tokenizer)
        return cls(tokenizer.input_template.apply(ids, None, None), texts, ids, ())


class CausalLMTask(GenerativeTask):
    """The next token of texts."""

    kinds = ("decoder",)
    metrics = ("bits_per_byte", "perplexity")
    columns = ("text",)
    tables = (("decoding", DecodingConfig), ("windows", WindowConfig))
    truncates = False
    special_pieces = ("eos_id", "bos_id")
    reads_source = False
    head = "language_model"
    examples = ("오늘 아침에는", "The weather today", "옛날 옛적에")
    korean = "글을 이어 쓰는"
    input_format = "A text begins with [BOS]."

    def build_model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """A decoder with an output projection."""
        return LanguageModel(config)

    def job(self, recipe: Recipe) -> type[RecipeJob[Any]]:
        """Cross-entropy of each next token."""
        return CausalLMJob

    def evaluate(self, pipeline: Pipeline, table: Table, split: str) -> EvaluationResult:
        """Perplexity per token and bits per byte; `unknown` is the fraction of [UNK] tokens.

        Raises InputError for an ensemble: these are scores of one model.
        """
        assert isinstance(pipeline.model, LanguageModel)
        ensemble = as_generation(pipeline).ensemble_models
        if ensemble:
            raise InputError(
                "task.perplexity_of_ensemble",
                "perplexity needs a single language model, got an ensemble of {n_ensemble}; "
                "evaluate each by itself, without --with",
                n_ensemble=1 + len(ensemble),
            )
        recipe, tokenizer = pipeline.recipe, pipeline.vocabulary
        texts, windows = table.column("text"), recipe.windows
        if pipeline.origin is None:
            documents = TokenizedDocuments.of(texts, tokenizer)
        else:
            documents = TokenizedDocuments.as_imported(texts, tokenizer)
            windows = replace(windows, across_documents=False)
        metrics = score_documents(
            pipeline.model,
            documents,
            recipe.model.max_length,
            windows,
            tokenizer,
            pipeline.device,
            pipeline.processes,
        )
        if not math.isfinite(metrics.loss):
            raise non_finite_error("losses")
        unknown = documents.count(unk_id(tokenizer))
        return EvaluationResult(
            {
                "task": recipe.task,
                "split": split,
                "n": metrics.n,
                "perplexity": metrics.perplexity,
                "bits_per_byte": metrics.bits_per_byte,
                "tokens": metrics.tokens,
                "bytes": metrics.bytes,
                "unknown": unknown / max(metrics.tokens, 1),
            },
            kernel=KernelChoice("torch", "float32", "a perplexity is computed with PyTorch"),
        )

    def predict(self, pipeline: Pipeline, texts: Sequence[str]) -> list[GeneratedText]:
        """The continuation of each text, without the text."""
        return generate(pipeline, texts)

    def generate_one(
        self, pipeline: Pipeline, text: str, callback: StepCallback
    ) -> tuple[Generated, int]:
        """The best continuation; the prompt is the text."""
        ids = prompt_ids(pipeline, text)
        ((best, *_),) = generate_from_ids(pipeline, [ids], callback=callback)
        return best, len(ids)

    def score_target(
        self, pipeline: Pipeline, text: str, target: str
    ) -> tuple[Tensor, list[int], int]:
        """log p of the target as the continuation of the text."""
        ids, tokens = prompt_ids(pipeline, text), pipeline.vocabulary.encode(target)
        inputs = [*ids, *tokens[:-1]]
        if not tokens:
            raise InputError(
                "task.empty_target",
                "the target must have at least one token, got none; leave it out to generate one",
            )
        logits = pipeline.logits(torch.tensor([inputs], dtype=torch.int64))
        return logits[0, len(ids) - 1 :].log_softmax(-1).cpu(), tokens, len(ids)

    def effective_decoding(self, pipeline: Pipeline) -> DecodingConfig:
        """The decoding settings of the recipe; without a source max_ratio does not apply."""
        return replace(pipeline.recipe.decoding, max_ratio=0.0)

    def stream(
        self, pipeline: Pipeline, text: str, on_text: Callable[[str], None]
    ) -> GeneratedText:
        """Continue one text; pass each part to `on_text` as soon as it is final."""
        return stream(pipeline, text, on_text)


def packed_batches(
    windows: Windows,
    order: NDArray[np.int64],
    width: int,
    batch_tokens: int,
    tokenizer: Tokenizer,
    device: torch.device,
) -> LazyBatches[PackedBatch]:
    """Batches of the windows, packed in this order into rows of `width`, `batch_tokens` each."""
    rows = plan_packing(windows.lengths, order, width)
    n_rows = max(batch_tokens // width, 1)
    index_batches = [np.arange(a, min(a + n_rows, len(rows))) for a in range(0, len(rows), n_rows)]

    def build(numbers: NDArray[np.int64]) -> PackedBatch:
        packed = windows.to_rows(rows.take(numbers), width, tokenizer.padding_id)

        def tensor(array: NDArray[np.generic]) -> Tensor:
            return torch.from_numpy(array).to(device)

        return PackedBatch(
            ids=tensor(packed.ids),
            labels=tensor(packed.labels),
            window_ids=None if packed.unpacked else tensor(packed.window_ids),
            positions=None if packed.unpacked else tensor(packed.positions),
            loss_mask=None if packed.loss_mask.all() else tensor(packed.loss_mask),
            tokens=int((packed.window_ids >= 0).sum()),
            n_targets=int(packed.loss_mask.sum()),
        )

    return LazyBatches(index_batches, build)


def next_token_loss(
    model: LanguageModel,
    batch: PackedBatch,
    label_smoothing: float = 0.0,
    own_loss: Callable[..., Tensor] | None = None,
) -> Tensor:
    """-log p of the next tokens that count, summed: (); or `own_loss` of their logits."""
    mask = None
    if batch.window_ids is not None:
        mask = AttentionMask.from_segments(batch.window_ids, causal=True)
    hidden = model.hidden_states(batch.ids, mask, positions=batch.positions)  # (R, W, D)
    if batch.loss_mask is None:
        hidden, labels = hidden.flatten(0, 1), batch.labels.flatten()
    else:
        hidden, labels = hidden[batch.loss_mask], batch.labels[batch.loss_mask]  # (N, D), (N,)
    if own_loss is not None:
        return own_loss(model.output(hidden).float(), labels)
    if isinstance(model.output, SoftcappedLinear):
        logits = model.output(hidden).float()
        return F.cross_entropy(logits, labels, reduction="sum", label_smoothing=label_smoothing)
    return fused_linear_cross_entropy(hidden, model.output, labels, label_smoothing=label_smoothing)


@torch.inference_mode()
def score_documents(
    model: LanguageModel,
    documents: TokenizedDocuments,
    width: int,
    windows: WindowConfig,
    tokenizer: Tokenizer,
    device: torch.device,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> LanguageModelMetrics:
    """Predict every token of the documents once, with the context that `windows` specifies."""
    nats, tokens = 0.0, 0
    for rows in documents.shards():
        starts = None
        if windows.across_documents:
            rows, starts = concatenate(rows), rows.offsets[:-1]
        over = Windows.over(rows, width, int(width * windows.overlap), texts=starts)
        order = np.arange(len(over))
        batches = packed_batches(over, order, width, EVAL_BATCH_TOKENS, tokenizer, device)
        score = partial(_score, model, batches)
        for loss, n_targets in distributed_map(range(len(batches)), score, processes, JSON_CODEC):
            nats += loss
            tokens += n_targets
    return LanguageModelMetrics(len(documents.rows), tokens, documents.bytes, nats)


def _score(
    model: LanguageModel, batches: LazyBatches[PackedBatch], number: int
) -> tuple[float, int]:
    batch = batches[number]
    return next_token_loss(model, batch).item(), batch.n_targets


class CausalLMJob(RecipeJob[PackedBatch]):
    """Trains a language model with cross-entropy of the next token."""

    model: LanguageModel

    def prepare(self, splits: Splits) -> None:
        """Tokenize the documents."""
        self.train, self.dev = (
            TokenizedDocuments.of(table.column("text"), self.tokenizer)
            for table in (splits.train, splits.dev)
        )

    def epoch(self, number: int) -> Epoch[PackedBatch]:
        """Every token once; the windows of long documents start elsewhere in every epoch.

        Large data are shuffled in two steps: blocks of documents, and all windows of a shard of
        such blocks.
        """
        rows, seed = self.train.rows, self.recipe.seed
        if not self.train.is_large:
            return self._shuffled(rows, seed, number)
        bounds = rows.blocks(BLOCK_TOKENS)
        order = permutation(len(bounds) - 1, derive_seed(seed, "blocks"), number)
        n_shards = max(len(rows.ids) // SHARD_TOKENS, 1)
        shards = np.array_split(order, min(n_shards, len(order)))

        def plan(shard: int) -> LazyBatches[PackedBatch]:
            blocks = [np.arange(bounds[block], bounds[block + 1]) for block in shards[shard]]
            documents = rows.take(np.concatenate(blocks))
            return self._shuffled(documents, derive_seed(seed, "shard", shard), number)

        return ShardedBatches(plan, len(shards))

    def _shuffled(self, documents: Ragged, seed: int, number: int) -> LazyBatches[PackedBatch]:
        """The batches of documents whose windows are shuffled as a whole."""
        width, texts = self.recipe.model.max_length, None
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
        smoothing = self.recipe.training.label_smoothing
        return next_token_loss(self.model, batch, smoothing, self.own_loss)

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
