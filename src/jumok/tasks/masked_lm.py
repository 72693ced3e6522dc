"""Masked language modeling (Devlin et al. 2019): predict the token behind each [MASK].

Shapes: B texts, T tokens, D model width, M masked tokens, V vocabulary.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.data.resumable_loader import Epoch
from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.decoding.finite import non_finite_error
from jumok.evaluation.examples import Example
from jumok.models import MaskedLanguageModel
from jumok.nn.fused_linear_cross_entropy import fused_linear_cross_entropy
from jumok.nn.losses import cross_entropy
from jumok.nn.masks import AttentionMask, Mask
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.seeding import derive_seed, permutation
from jumok.tasks.inputs.batches import EVAL_BATCH_TOKENS, PaddedBatch, batches_by_length, collate
from jumok.tasks.inputs.masking import MaskedRows, PieceInfo, mask_tokens
from jumok.tasks.inputs.text_encoder import TextEncoder
from jumok.tasks.own_model import forward_own
from jumok.tasks.pipeline.distributed_map import JSON_CODEC, distributed_map
from jumok.tasks.pipeline.fill_mask import fill_masks
from jumok.tasks.pipeline.outputs import EvaluationResult, GeneratedText
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.recipe.fixed_values import check_values, with_key
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import DistillationConfig, MaskingConfig, ModelConfig
from jumok.tasks.registry import EMBEDDINGS, JOBS, MODELS
from jumok.tasks.shared.recipe_job import RecipeJob
from jumok.tasks.shared.subword_sampling import sample_some
from jumok.tasks.task import Task
from jumok.text.offsets import SPACE
from jumok.text.pretrained import PretrainedTokenizer
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer
from jumok.training.job import DevResult

MAX_EXAMPLES = 30  # texts in a report


@dataclass(frozen=True)
class MaskedBatch:
    """Texts of similar length, and the positions and labels of their masked tokens."""

    texts: PaddedBatch
    positions: Tensor  # (M,) int64: indices into the (B * T) tokens
    labels: Tensor  # (M,) int64
    packed: "PackedTexts | None" = None  # several texts in each row

    @property
    def mask(self) -> Mask:
        """Padding, or which tokens of a packed row belong together."""
        if self.packed is None:
            return self.texts.attention_mask
        return AttentionMask.from_segments(self.packed.text_ids)

    @property
    def token_positions(self) -> Tensor | None:
        """The position (B, T) of each token in its text; None: from 0 in every row."""
        return None if self.packed is None else self.packed.positions

    @property
    def tokens(self) -> int:
        """The number of tokens without padding."""
        return self.texts.n_tokens

    @property
    def n_targets(self) -> int:
        """The number of masked tokens."""
        return len(self.labels)

    @classmethod
    def of(
        cls, masked: MaskedRows, examples: NDArray[np.int64], pad_id: int, device: torch.device
    ) -> "MaskedBatch":
        """The batch of these examples."""
        rows, offsets = masked.rows, masked.rows.offsets
        texts = collate([rows[i] for i in examples], pad_id, device)
        tokens = np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in examples])
        mask = masked.mask[tokens]
        positions = np.flatnonzero(mask)
        if texts.attention_mask is not None:
            positions = np.flatnonzero(texts.attention_mask.cpu().numpy())[positions]
        labels = torch.from_numpy(masked.labels[tokens[mask]].astype(np.int64))
        return cls(texts, torch.from_numpy(positions).to(device), labels.to(device))


@dataclass(frozen=True)
class PackedTexts:
    """Which text each token of a packed row belongs to, and its position in that text."""

    text_ids: Tensor  # (B, T) int64
    positions: Tensor  # (B, T) int64, from 0 in every text


@dataclass(frozen=True)
class MaskedLMMetrics:
    """The quality of the predictions of masked tokens."""

    tokens: int  # that are masked
    loss: float  # mean -log p of the labels
    accuracy: float  # 0 to 1

    @property
    def perplexity(self) -> float:
        """exp(loss)."""
        return math.exp(min(self.loss, 700.0))  # the largest exponent of a float


class MaskedLMTask(Task):
    """The masked tokens of texts."""

    metrics = ("perplexity",)
    columns = ("text",)
    tables = (("masking", MaskingConfig), ("distillation", DistillationConfig))
    augmentations = ("subword_sampling",)
    model_keys = ("generator",)
    truncates = False
    special_pieces = ("mask_id",)
    answer = "masks"
    examples = ("오늘 날씨가 정말 [MASK]", "나는 [MASK]에 갔다", "겨울에는 [MASK]이 온다")
    korean = "가려진 조각을 알아맞히는"

    def build_model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """An encoder with an output projection, or with a generator of replaced tokens."""
        if config.generator:
            return MODELS.get("replaced_tokens")(config)
        return MaskedLanguageModel(config)

    def n_outputs(self, config: ModelConfig, labels: Sequence[str]) -> int:
        """A logit for each piece."""
        return config.vocabulary_size

    def job(self, recipe: Recipe) -> type[RecipeJob[Any]]:
        """Cross-entropy of the masked tokens, and the losses of teachers or replaced tokens."""
        if recipe.distillation.teachers:
            return JOBS.get("masked_language_modeling.distillation")
        return (
            JOBS.get("masked_language_modeling.generator")
            if recipe.model.generator
            else MaskedLMJob
        )

    def check_recipe(self, recipe: Recipe) -> None:
        """Raise InputError for what a masked language model with teachers cannot have."""
        if recipe.distillation.teachers:  # of its own texts, in the pieces of one model
            unused = {
                "distillation.temperature": 1.0,
                "distillation.corpus": "",
                "distillation.texts": "",
                "distillation.rows": 0,
                "augmentation.subword_sampling": 0.0,
                "model.generator": 0.0,
            }
            check_values(recipe, unused, with_key("distillation.teachers"))

    def evaluate(self, pipeline: Pipeline, table: Table, split: str) -> EvaluationResult:
        """Loss, perplexity and accuracy of masked tokens, with the same masks in every run."""
        recipe, tokenizer = pipeline.recipe, pipeline.vocabulary
        texts = table.column("text")
        rows = TextEncoder(tokenizer, recipe.model.max_length)(texts)
        masked = fixed_masking(rows, PieceInfo.of(tokenizer), recipe.masking)
        metrics, predicted = score_masked(
            pipeline.model, masked, tokenizer, pipeline.device, pipeline.processes
        )
        if not math.isfinite(metrics.loss):
            raise non_finite_error("losses")
        return EvaluationResult(
            {
                "task": recipe.task,
                "split": split,
                "n": len(texts),
                "masked_tokens": metrics.tokens,
                "loss": metrics.loss,
                "perplexity": metrics.perplexity,
                "accuracy": metrics.accuracy,
            },
            examples=_examples(masked, predicted, tokenizer),
        )

    def predict(self, pipeline: Pipeline, texts: Sequence[str]) -> list[GeneratedText]:
        """Each text with every [MASK] filled in."""
        return fill_masks(pipeline, texts)


def fixed_masking(rows: Ragged, pieces: PieceInfo, masking: MaskingConfig) -> MaskedRows:
    """Mask the rows in the same way in every run, whatever its seed, so that scores compare."""
    return mask_tokens(rows, pieces, masking, np.random.Generator(np.random.Philox(0)))


def is_masked_language_model(model: nn.Module) -> bool:
    """Whether this is a model of jumok, or has one as its generator of replaced tokens."""
    return isinstance(getattr(model, "generator", model), MaskedLanguageModel)


def masked_language_model(model: nn.Module) -> MaskedLanguageModel:
    """The model itself, or its generator of replaced tokens."""
    language_model = getattr(model, "generator", model)
    assert isinstance(language_model, MaskedLanguageModel)
    return language_model


def masked_hidden(model: nn.Module, batch: MaskedBatch) -> tuple[Tensor, nn.Module]:
    """The transformed hidden states of the masked tokens, (M, D), and the output projection.

    Of a model of one's own the logits (M, V), and the identity.
    """
    if not is_masked_language_model(model):
        logits = forward_own(model, batch.texts.input_ids, batch.texts.attention_mask)  # (B, T, V)
        return logits.flatten(0, 1).index_select(0, batch.positions), nn.Identity()
    return transform_masked(model, hidden_states(model, batch), batch)


def hidden_states(model: nn.Module, batch: MaskedBatch) -> Tensor:
    """The hidden states of all tokens, (B, T, D)."""
    return masked_language_model(model).hidden_states(
        batch.texts.input_ids, batch.mask, positions=batch.token_positions
    )


def transform_masked(
    model: nn.Module, hidden: Tensor, batch: MaskedBatch
) -> tuple[Tensor, nn.Linear]:
    """What `masked_hidden` returns, from the hidden states (B, T, D) of all tokens."""
    language_model = masked_language_model(model)
    masked = hidden.flatten(0, 1).index_select(0, batch.positions)  # (M, D)
    return language_model.transform(masked), language_model.output


@torch.inference_mode()
def score_masked(
    model: nn.Module,
    masked: MaskedRows,
    tokenizer: Tokenizer,
    device: torch.device,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> tuple[MaskedLMMetrics, NDArray[np.int64]]:
    """The metrics of all masked tokens, and the predicted pieces in the order of the tokens."""

    def predict(examples: NDArray[np.int64]) -> tuple[float, list[int]]:
        batch = MaskedBatch.of(masked, examples, tokenizer.padding_id, device)
        hidden, output = masked_hidden(model, batch)
        logits = output(hidden)  # (M, V)
        return cross_entropy(logits, batch.labels).item(), logits.argmax(-1).tolist()

    loss = 0.0
    predicted = np.empty(int(masked.mask.sum()), dtype=np.int64)
    n_masked = np.cumsum(masked.mask)  # up to each token
    index_batches = batches_by_length(masked.rows, EVAL_BATCH_TOKENS)
    results = distributed_map(index_batches, predict, processes, JSON_CODEC)
    for examples, (nats, best) in zip(index_batches, results, strict=True):
        loss += nats
        first = 0
        for i in examples:
            start, end = masked.rows.offsets[i : i + 2]
            n = int(masked.mask[start:end].sum())
            if n:
                predicted[n_masked[end - 1] - n : n_masked[end - 1]] = best[first : first + n]
            first += n
    n = max(len(predicted), 1)
    correct = int((predicted == masked.labels[masked.mask]).sum())
    return MaskedLMMetrics(len(predicted), loss / n, correct / n), predicted


def _examples(
    masked: MaskedRows, predicted: NDArray[np.int64], tokenizer: Tokenizer
) -> list[Example]:
    """The first texts: masked, original, and with the predicted pieces."""
    n = int(masked.rows.offsets[min(MAX_EXAMPLES, len(masked.rows))])
    mask = masked.mask[:n]
    filled = masked.labels[:n].copy()
    filled[mask] = predicted[: int(mask.sum())]
    examples = []
    for start, end in zip(masked.rows.offsets[:-1], masked.rows.offsets[1:], strict=True):
        if end > n:
            break
        rows = (masked.rows.ids[start:end], masked.labels[start:end], filled[start:end])
        examples.append(Example(*(_decode_with_masks(row, tokenizer) for row in rows)))
    return examples


def _decode_with_masks(ids: NDArray[np.int32], tokenizer: Tokenizer) -> str:
    """The text of ids, with [MASK] shown."""
    if isinstance(tokenizer, PretrainedTokenizer):
        return tokenizer.decode([int(i) for i in ids], keep_special=True)
    pieces = [tokenizer.piece(int(i)) for i in ids if i != tokenizer.cls_id]
    return "".join(pieces).replace(SPACE, " ").strip()


MAX_COUNTED_TOKENS = 20_000_000  # of the training texts; the vectors hardly change with more


class MaskedLMJob(RecipeJob[MaskedBatch]):
    """Trains a masked language model with cross-entropy of the masked tokens.

    A text longer than `model.max_length` is cut into several.
    """

    def prepare(self, splits: Splits) -> None:
        """Mask the development texts; the training texts are masked in each epoch."""
        self.encode = TextEncoder(self.tokenizer, self.recipe.model.max_length)
        self.pieces = PieceInfo.of(self.tokenizer)
        self.train = splits.train.column("text")
        rows = self._cut(self.encode.ids(splits.dev.column("text")))
        self.dev = fixed_masking(rows, self.pieces, self.recipe.masking)

    @torch.no_grad()
    def initialize(self) -> None:
        """With `masking.cooccurrence_init` start from what single tokens and pairs of them show.

        The embeddings are those of `cooccurrence_embedding` with the usual standard deviation; the
        bias of the output is the logarithm of the frequency of each token.
        """
        if not self.recipe.masking.cooccurrence_init:
            return
        rows = self.encode.ids(self.train)
        step = -(-len(rows.ids) // MAX_COUNTED_TOKENS)
        rows = rows.take(np.arange(0, len(rows), max(step, 1)))
        language_model = masked_language_model(self.model)
        weight = language_model.encoder.embedding.tokens.weight  # (V, E)
        generator = torch.Generator().manual_seed(derive_seed(self.recipe.seed, "cooccurrence"))
        vectors = EMBEDDINGS.get("cooccurrence")(rows, weight.shape[0], weight.shape[1], generator)
        vectors = vectors.to(weight.device)
        known = vectors.any(-1)  # (V,)
        weight[known] = vectors[known] * weight.shape[1] ** -0.5
        counts = torch.from_numpy(np.bincount(rows.ids, minlength=len(weight)) + 1.0)  # (V,)
        language_model.output.bias.copy_((counts / counts.sum()).log())

    def epoch(self, number: int) -> Epoch[MaskedBatch]:
        """The batches of an epoch, in its order and with its masks."""
        return self.batches(number)

    def batches(self, number: int) -> "MaskedBatches | PackedBatches":
        """The same, with the places of the tokens."""
        rows, config = self._rows(number), self.recipe
        if not config.masking.packed:
            return MaskedBatches(self, number, rows, self.index_batches(rows.lengths, number))
        order = permutation(len(rows), config.seed, number)
        width = config.model.max_length
        n_rows = max(config.training.batch_tokens // width, 1)
        return PackedBatches(self, number, order, rows.take(order), width, n_rows)

    def mask(self, rows: Ragged, epoch: int, batch: int, n_batches: int) -> MaskedRows:
        """Mask the rows of a batch: a pure function of its epoch and number."""
        seed = derive_seed(self.recipe.seed, "masking", epoch, batch)
        rng = np.random.Generator(np.random.Philox(seed))
        return mask_tokens(rows, self.pieces, self.recipe.masking, rng, epoch + batch / n_batches)

    def loss(self, batch: MaskedBatch) -> Tensor:
        """Cross-entropy of the masked tokens, summed."""
        hidden, output = masked_hidden(self.model, batch)
        if isinstance(output, nn.Linear):
            return self.loss_of(hidden, output, batch)
        if self.own_loss is not None:
            return self.own_loss(hidden.float(), batch.labels)
        return cross_entropy(hidden, batch.labels, self.recipe.training.label_smoothing)

    def loss_of(self, hidden: Tensor, output: nn.Linear, batch: MaskedBatch) -> Tensor:
        """The same from what `masked_hidden` returns: the states (M, D) and the projection."""
        smoothing = self.recipe.training.label_smoothing
        if self.own_loss is not None:
            return self.own_loss(output(hidden).float(), batch.labels)
        return fused_linear_cross_entropy(hidden, output, batch.labels, label_smoothing=smoothing)

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """Perplexity of the development texts, with the same masks every time."""
        metrics, _ = score_masked(self.model, self.dev, self.tokenizer, self.device, processes)
        return DevResult(metrics.loss, metrics.perplexity, "perplexity")

    def _rows(self, number: int) -> Ragged:
        """The input ids of the training texts in an epoch."""
        augmentation = self.recipe.augmentation
        if not augmentation.subword_sampling:
            return self._cut(self.encode.ids(self.train))
        seed = derive_seed(self.recipe.seed, "sampling", number)
        return self._cut(sample_some(self.train, self.tokenizer, augmentation, seed))

    def _cut(self, rows: Ragged) -> Ragged:
        """Rows of at most `model.max_length` tokens, special tokens included."""
        n_special = self.tokenizer.input_template.n_special(paired=False)
        return self.encode.add_special_tokens(rows.split(self.recipe.model.max_length - n_special))


@dataclass(frozen=True)
class TokenPlaces:
    """For each token (B * T) of a batch the number of its row, -1 for padding, and its position."""

    rows: NDArray[np.int64]
    positions: NDArray[np.int64]


@dataclass(frozen=True)
class MaskedBatches:
    """The batches of an epoch: texts of similar length, masked when they are read."""

    job: MaskedLMJob
    number: int
    rows: Ragged
    index_batches: Sequence[NDArray[np.int64]]

    def __len__(self) -> int:
        return len(self.index_batches)

    def __getitem__(self, index: int) -> MaskedBatch:
        job, texts = self.job, self.rows.take(self.index_batches[index])
        masked = job.mask(texts, self.number, index, len(self))
        return MaskedBatch.of(masked, np.arange(len(texts)), job.tokenizer.padding_id, job.device)

    def places(self, index: int) -> TokenPlaces:
        """Where each token (B * T) of a batch is from."""
        rows = self.index_batches[index]
        lengths = self.rows.lengths[rows]
        columns = np.arange(lengths.max())
        number = np.where(columns < lengths[:, None], rows[:, None], -1)  # (B, T)
        return TokenPlaces(number.ravel(), np.tile(columns, len(rows)))


@dataclass(frozen=True)
class PackedBatches:
    """The batches of an epoch: all texts end to end in rows of one width, without padding.

    A text that crosses the end of a row is two texts. Tokens after the last whole batch are left
    out: those of other texts in every epoch.
    """

    job: MaskedLMJob
    number: int
    order: NDArray[np.int64]  # the number of each text, in the order of the epoch
    stream: Ragged  # the texts in this order
    width: int  # T
    n_rows: int  # B

    def __len__(self) -> int:
        return max(len(self.stream.ids) // (self.width * self.n_rows), 1)

    def __getitem__(self, index: int) -> MaskedBatch:
        tokens, width = self._tokens(index)
        text, start = self._texts(tokens)
        row_start = tokens - (tokens - tokens[0]) % width
        rows = np.full(len(tokens) // width, width, np.int64)
        masked = self.job.mask(
            Ragged.from_lengths(self.stream.ids[tokens], rows), self.number, index, len(self)
        )

        def grid(values: NDArray[np.integer]) -> Tensor:
            return self._tensor(values).view(-1, width)  # (B, T)

        return MaskedBatch(
            PaddedBatch(grid(masked.rows.ids), None),
            self._tensor(np.flatnonzero(masked.mask)),
            self._tensor(masked.labels[masked.mask]),
            PackedTexts(grid(text), grid(tokens - np.maximum(start, row_start))),
        )

    def places(self, index: int) -> TokenPlaces:
        """Where each token (B * T) of a batch is from."""
        tokens, _ = self._tokens(index)
        text, start = self._texts(tokens)
        return TokenPlaces(self.order[text], tokens - start)

    def _tokens(self, index: int) -> tuple[NDArray[np.int64], int]:
        """The tokens (B * T) of a batch, as indices into the stream, and the width T."""
        size = self.width * self.n_rows
        first = index * size
        n = len(self.stream.ids[first : first + size])
        width = min(self.width, n)  # fewer tokens than a row: all texts in one
        return first + np.arange(n // width * width), width

    def _texts(self, tokens: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The text of each token, and where it starts in the stream."""
        offsets = self.stream.offsets
        text = np.searchsorted(offsets, tokens, side="right") - 1
        return text, offsets[text]

    def _tensor(self, values: NDArray[np.integer]) -> Tensor:
        return torch.from_numpy(values.astype(np.int64)).to(self.job.device)
