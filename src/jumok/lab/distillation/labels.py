"""Distillation: a classifier learns from the predictions of finished runs (Hinton et al. 2015).

Shapes: n texts, B of a batch, L labels.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jumok.data.arrow_cache import cache_folder, cached_table, write_table
from jumok.data.splits import Splits
from jumok.errors import InputError
from jumok.inference.optimization import optimize, unsupported_reason
from jumok.models.weights import named_weights
from jumok.nn.losses import cross_entropy
from jumok.tasks.classification import ClassificationJob
from jumok.tasks.inputs.batches import IGNORE_INDEX, PaddedBatch
from jumok.tasks.inputs.text_encoder import LabelledTexts, TextEncoder, TextInputs
from jumok.tasks.inputs.unlabelled_texts import unlabelled_texts
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.pipeline.sequence_classification import predict_all
from jumok.tasks.recipe.tables import DistillationConfig
from jumok.tasks.shared.encoder_job import LabelledBatch
from jumok.text.ragged import Ragged


@dataclass(frozen=True)
class SoftLabelledBatch(LabelledBatch):
    """Texts with the mean probabilities of the teachers; those without a label count too."""

    soft_labels: Tensor = field(kw_only=True)  # (B, L)

    @property
    def n_targets(self) -> int:
        """The number of texts."""
        return len(self.soft_labels)


class DistillationJob(ClassificationJob):
    """Trains a classifier by labels and by the probabilities of teachers, also on added texts."""

    soft_labels: Tensor  # (n, L) of the training texts

    def prepare(self, splits: Splits) -> None:
        """Encode the texts, add texts without a label, and predict the soft labels of all."""
        super().prepare(splits)
        config = self.recipe.distillation
        added = unlabelled_texts(config, splits)
        self.train = with_unlabelled(self.train, added, self.encode)
        self.texts, self.ids = self.train.texts, self.train.ids
        self.soft_labels = soft_labels(config, self.texts, splits.labels, self.device)

    def labelled(
        self, texts: PaddedBatch, examples: NDArray[np.int64], *, two_views: bool
    ) -> LabelledBatch:
        """The batch of these training texts, with their soft labels."""
        soft = self.soft_labels[torch.from_numpy(examples)].to(self.device)
        return SoftLabelledBatch(texts, self.labels_of(examples), two_views, soft_labels=soft)

    def label_loss(self, logits: Tensor, batch: LabelledBatch) -> Tensor:
        """Cross-entropy of the labels, plus the divergence from the teachers for every text."""
        assert isinstance(batch, SoftLabelledBatch)
        config, labelled = self.recipe.distillation, batch.labels != IGNORE_INDEX
        smoothing = self.recipe.training.label_smoothing
        loss = cross_entropy(logits[labelled], batch.labels[labelled], smoothing)
        divergence = distillation_loss(logits, batch.soft_labels, config.temperature)
        return loss + config.weight * divergence


def distillation_loss(logits: Tensor, soft: Tensor, temperature: float) -> Tensor:
    """T^2 KL(soft || softmax(logits / T)), summed over the texts: logits, soft (B, L) -> ().

    T^2 keeps the size of the gradients the same for every temperature T (section 2).

    >>> soft = torch.tensor([[0.5, 0.5]])
    >>> distillation_loss(torch.tensor([[3.0, 3.0]]), soft, 2.0).item()
    0.0
    >>> round(distillation_loss(torch.tensor([[0.0, 2.0]]), soft, 1.0).item(), 4)
    0.4338
    """
    student = (logits.float() / temperature).log_softmax(-1)
    return temperature**2 * (soft * (soft.clamp(min=1e-12).log() - student)).sum()


def with_unlabelled(
    train: LabelledTexts, texts: Sequence[str], encode: TextEncoder
) -> LabelledTexts:
    """The training texts, followed by texts without a label."""
    if not texts:
        return train
    return LabelledTexts(
        TextInputs([*train.texts.texts, *texts]),
        Ragged.concat([train.ids, encode(texts)]),
        np.concatenate([train.labels, np.full(len(texts), IGNORE_INDEX, train.labels.dtype)]),
    )


def soft_labels(
    config: DistillationConfig, texts: TextInputs, labels: Sequence[str], device: torch.device
) -> Tensor:
    """The mean probabilities of the teachers at the temperature, (n, L) float32.

    On a CPU the teachers compute in int8. The logits of each teacher are kept in the user's cache,
    so that a training that resumes, or another student, does not predict again.

    Raises InputError for a teacher of other labels.
    """
    from jumok.tasks.runs.load import load  # loads pipelines of all tasks

    total = torch.zeros(len(texts.texts), len(labels))
    for name in config.teachers:
        teacher = load(name, str(device))
        if teacher.task.answer != "label" or teacher.labels != tuple(labels):
            raise InputError(
                "task.teacher_of_other_labels",
                "distillation.teachers must be runs with the labels {labels}, got {labels_2} in "
                "{name}; remove it",
                labels=", ".join(labels),
                labels_2=", ".join(teacher.labels) or "none",
                name=name,
            )
        total += (_logits(teacher, texts) / config.temperature).softmax(-1)
    return total / len(config.teachers)


def _logits(teacher: Pipeline, texts: TextInputs) -> Tensor:
    """The logits (n, L) of a teacher, from the cache if it has read the same texts before."""
    rows = TextEncoder(teacher.vocabulary, teacher.recipe.model.max_length)(
        texts.texts, texts.pairs
    )
    path = cache_folder("soft-labels") / f"{_key(teacher, rows)}.arrow"
    cached = cached_table(path)
    if cached is not None:
        values = cached[0].column("logits").combine_chunks().values.to_numpy()
        return torch.from_numpy(values.reshape(len(rows), -1).copy())
    model = optimize(teacher.model, "int8") if _computes_in_int8(teacher) else teacher.model
    logits = predict_all(model, rows, teacher.vocabulary, teacher.device)
    _write(path, logits)
    return logits


def _computes_in_int8(teacher: Pipeline) -> bool:
    return teacher.device.type == "cpu" and unsupported_reason(teacher.model) is None


def _write(path: Path, logits: Tensor) -> None:
    import pyarrow as pa

    schema = pa.schema([("logits", pa.list_(pa.float32()))])
    flat = pa.array(logits.numpy().ravel(), pa.float32())
    offsets = pa.array(np.arange(len(logits) + 1, dtype=np.int32) * logits.shape[1])
    column = pa.ListArray.from_arrays(offsets, flat)
    write_table(path, schema, [pa.RecordBatch.from_arrays([column], schema=schema)])


def _key(teacher: Pipeline, rows: Ragged) -> str:
    """A checksum of the weights, their precision, the config and the input ids."""
    precision = "int8" if _computes_in_int8(teacher) else "float32"
    digest = hashlib.sha256(f"{precision} {teacher.recipe.model!r}".encode())
    for name, weight in sorted(named_weights(teacher.model).items()):
        digest.update(name.encode() + weight.detach().cpu().numpy().tobytes())
    digest.update(rows.ids.tobytes() + rows.offsets.tobytes())
    return digest.hexdigest()
