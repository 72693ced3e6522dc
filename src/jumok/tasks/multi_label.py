"""Multi-label classification: any number of labels per text, or pair of texts.

Each label is decided by itself: its probability is the sigmoid of its logit, and the prediction
are the labels from `recipe.multi_label.threshold` on. Shapes: n texts, L labels.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from jumok.data.files.label_sets import split_labels
from jumok.data.table import Table
from jumok.decoding.finite import check_logits
from jumok.evaluation import multi_label_metrics
from jumok.evaluation.examples import Mistake
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.tasks.classification import MAX_EXAMPLES, build_classifier
from jumok.tasks.inputs.text_encoder import LabelledTexts, TextEncoder, TextInputs
from jumok.tasks.pipeline.outputs import EvaluationResult, MultiLabelPrediction
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.pipeline.sequence_classification import predict_all
from jumok.tasks.recipe.tables import ModelConfig
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer


class MultiLabelTask:
    """Any number of labels per text, or pair of texts."""

    def build_model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """The model of a classifier, with one logit for each label."""
        return build_classifier(config, labels)

    def evaluate(self, pipeline: Pipeline, table: Table, split: str) -> EvaluationResult:
        """Micro and macro F1, exact match, and the most confident mistakes."""
        recipe, labels = pipeline.recipe, pipeline.labels
        encode = TextEncoder(pipeline.vocabulary, recipe.model.max_length)
        data = multi_label_table(table, encode, labels)
        probabilities = label_probabilities(pipeline, data.ids)
        predicted, truth = probabilities >= recipe.multi_label.threshold, data.labels > 0
        metrics = multi_label_metrics(truth, predicted)
        certainty = np.where(truth == predicted, 0.0, np.abs(probabilities - 0.5) + 0.5)  # (n, L)
        wrong = np.flatnonzero((truth != predicted).any(-1))
        worst = sorted(wrong.tolist(), key=lambda i: -float(certainty[i].max()))[:MAX_EXAMPLES]
        return EvaluationResult(
            {
                "task": recipe.task,
                "split": split,
                "n": metrics.n,
                "micro_f1": metrics.micro_f1,
                "macro_f1": metrics.macro_f1,
                "exact_match": metrics.exact_match,
            },
            mistakes=[
                Mistake(
                    data.texts.display(i),
                    " | ".join(chosen_labels(truth[i], labels)) or "–",
                    " | ".join(chosen_labels(predicted[i], labels)) or "–",
                    float(certainty[i].max()),
                )
                for i in worst
            ],
        )

    def predict(self, pipeline: Pipeline, texts: Sequence[str]) -> list[MultiLabelPrediction]:
        """The labels of each text, or pair separated by a TAB, and the probability of each one."""
        encode = TextEncoder(pipeline.vocabulary, pipeline.recipe.model.max_length)
        rows = encode.encode_lines(texts, pipeline.recipe.paired)
        labels, threshold = pipeline.labels, pipeline.recipe.multi_label.threshold
        return [
            MultiLabelPrediction(
                text,
                chosen_labels(row >= threshold, labels),
                dict(zip(labels, row.tolist(), strict=True)),
            )
            for text, row in zip(texts, label_probabilities(pipeline, rows), strict=True)
        ]


def multi_label_table(table: Table, encode: TextEncoder, labels: Sequence[str]) -> LabelledTexts:
    """The rows of a table with their labels (n, L) float32: 1 where a text has the label."""
    indices = {label: index for index, label in enumerate(labels)}
    targets = np.zeros((len(table), len(labels)), dtype=np.float32)
    for row, cell in enumerate(table.column("labels")):
        targets[row, [indices[label] for label in split_labels(cell)]] = 1.0
    return LabelledTexts(TextInputs.from_table(table), encode.encode_table(table), targets)


def chosen_labels(chosen: NDArray[np.bool_], labels: Sequence[str]) -> tuple[str, ...]:
    """The labels where `chosen` (L,) is True.

    >>> chosen_labels(np.array([True, False, True]), ["연기", "음악", "결말"])
    ('연기', '결말')
    """
    return tuple(label for label, is_chosen in zip(labels, chosen, strict=True) if is_chosen)


def label_probabilities(pipeline: Pipeline, rows: Ragged) -> NDArray[np.float64]:
    """The probability of each label for every row, (n, L), in the order of the rows."""
    logits = predict_logits(
        pipeline.model, rows, pipeline.vocabulary, pipeline.device, pipeline.processes
    )
    return logits.double().sigmoid().numpy()


def predict_logits(
    model: nn.Module,
    rows: Ragged,
    tokenizer: Tokenizer,
    device: torch.device,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> torch.Tensor:
    """The finite logits (n, L) of every row, in the order of the rows."""
    logits = predict_all(model, rows, tokenizer, device, processes)
    check_logits(logits)
    return logits
