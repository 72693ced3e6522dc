"""Masked language modeling (Devlin et al. 2019): predict the token behind each [MASK].

Shapes: B texts, T tokens, D model width, M masked tokens, V vocabulary.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.data.table import Table
from jumok.decoding.finite import non_finite_error
from jumok.evaluation.examples import Example
from jumok.lab.models.replaced_tokens import ReplacedTokenModel, sample_tokens
from jumok.models import MaskedLanguageModel
from jumok.nn.losses import cross_entropy
from jumok.nn.masks import AttentionMask, Mask
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.tasks.inputs.batches import EVAL_BATCH_TOKENS, PaddedBatch, batches_by_length, collate
from jumok.tasks.inputs.masking import MaskedRows, PieceInfo, mask_tokens
from jumok.tasks.inputs.text_encoder import TextEncoder
from jumok.tasks.pipeline.distributed_map import JSON_CODEC, distributed_map
from jumok.tasks.pipeline.fill_mask import fill_masks
from jumok.tasks.pipeline.outputs import EvaluationResult, GeneratedText
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.recipe.tables import MaskingConfig, ModelConfig
from jumok.text.offsets import SPACE
from jumok.text.pretrained import PretrainedTokenizer
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer

DETECTION_WEIGHT = 50.0  # lambda in section 3.3 of Clark et al.
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


class MaskedLMTask:
    """The masked tokens of texts."""

    def build_model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """An encoder with an output projection, or with a generator of replaced tokens."""
        if config.generator:
            plain = replace(config, generator=0.0)  # each part is an encoder without one
            return ReplacedTokenModel(plain, config.generator, config.generator_layers)
        return MaskedLanguageModel(config)

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


def masked_language_model(model: nn.Module) -> MaskedLanguageModel:
    """The model itself, or its generator of replaced tokens."""
    language_model = model.generator if isinstance(model, ReplacedTokenModel) else model
    assert isinstance(language_model, MaskedLanguageModel)
    return language_model


def masked_hidden(model: nn.Module, batch: MaskedBatch) -> tuple[Tensor, nn.Linear]:
    """The transformed hidden states of the masked tokens, (M, D), and the output projection."""
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


def replaced_token_loss(
    model: ReplacedTokenModel, batch: MaskedBatch, hidden: Tensor, output: nn.Linear
) -> Tensor:
    """The loss of detecting the tokens that the generator replaced, times the masked tokens: ().

    hidden (M, D) are the generator's transformed hidden states of the masked tokens. The binary
    cross-entropy is a mean over all real tokens, padding excepted, with the weight of section 3.3.
    """
    ids = batch.texts.input_ids.flatten()
    original = ids.index_copy(0, batch.positions, batch.labels)
    corrupted = original.index_copy(0, batch.positions, sample_tokens(hidden, output))
    replaced = (corrupted != original).view_as(batch.texts.input_ids)  # (B, T)
    logits = model.detect(
        corrupted.view_as(batch.texts.input_ids), batch.mask, positions=batch.token_positions
    )
    real = batch.texts.attention_mask
    if real is not None:
        logits, replaced = logits[real], replaced[real]
    detection = F.binary_cross_entropy_with_logits(logits.float(), replaced.float())
    return DETECTION_WEIGHT * len(batch.labels) * detection


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
