"""Classification: one label per text, or pair of texts, by an encoder or an encoder-decoder."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from jumok.data.table import Table
from jumok.decoding.finite import check_logits
from jumok.evaluation import ClassificationMetrics, calibration_error, classification_metrics
from jumok.evaluation.examples import Mistake
from jumok.models import EncoderDecoderClassifier, text_classifier
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.tasks.inputs.text_encoder import LabelledTexts, TextEncoder, TextInputs
from jumok.tasks.pipeline.outputs import EvaluationResult, Prediction
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.pipeline.sequence_classification import predict_all
from jumok.tasks.recipe.tables import ModelConfig
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer

MAX_EXAMPLES = 30  # mistakes in a report


class ClassificationTask:
    """One label per text, or pair of texts."""

    def build_model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """An encoder with a classification head, or an encoder-decoder with one."""
        return build_classifier(config, labels)

    def evaluate(self, pipeline: Pipeline, table: Table, split: str) -> EvaluationResult:
        """Accuracy, macro F1, calibration error, and the most confident mistakes."""
        recipe, labels = pipeline.recipe, pipeline.labels
        encode = TextEncoder(pipeline.vocabulary, recipe.model.max_length)
        data = label_table(table, recipe.data.pieces, encode, labels)
        truth = data.labels.tolist()
        metrics, probabilities = score_texts(
            pipeline.model,
            data.ids,
            truth,
            pipeline.vocabulary,
            pipeline.device,
            pipeline.processes,
        )
        check_logits(probabilities)
        confidence, predicted = probabilities.max(-1)
        correct = predicted == torch.tensor(truth)
        wrong = (~correct).nonzero().flatten().tolist()
        worst = sorted(wrong, key=lambda i: -float(confidence[i]))[:MAX_EXAMPLES]
        return EvaluationResult(
            {
                "task": recipe.task,
                "split": split,
                "n": metrics.n,
                "accuracy": metrics.accuracy,
                "macro_f1": metrics.macro_f1,
                "calibration_error": calibration_error(confidence.tolist(), correct.tolist()),
            },
            confusion=metrics.confusion.tolist(),
            mistakes=[
                Mistake(
                    data.texts.display(i),
                    labels[truth[i]],
                    labels[int(predicted[i])],
                    float(confidence[i]),
                )
                for i in worst
            ],
        )

    def predict(self, pipeline: Pipeline, texts: Sequence[str]) -> list[Prediction]:
        """The probabilities of all labels for each text, or pair separated by a TAB."""
        encode = TextEncoder(pipeline.vocabulary, pipeline.recipe.model.max_length)
        rows = encode.encode_lines(texts, pipeline.recipe.paired)
        logits = predict_all(pipeline.model, rows, pipeline.vocabulary, pipeline.device)
        check_logits(logits)
        return [
            _prediction(text, row, pipeline.labels)
            for text, row in zip(texts, logits.softmax(-1).tolist(), strict=True)
        ]


def build_classifier(config: ModelConfig, labels: Sequence[str]) -> nn.Module:
    """An encoder with one logit for each label, or an encoder-decoder with them."""
    if config.kind == "encoder_decoder":
        return EncoderDecoderClassifier(config, len(labels))
    return text_classifier(config, len(labels), config.pooling, config.pooler)


def _prediction(text: str, probabilities: list[float], labels: Sequence[str]) -> Prediction:
    best = max(range(len(probabilities)), key=probabilities.__getitem__)
    by_label = dict(zip(labels, probabilities, strict=True))
    return Prediction(text, labels[best], probabilities[best], by_label)


def label_table(
    table: Table, pieces: bool, encode: TextEncoder, labels: Sequence[str]
) -> LabelledTexts:
    """The rows of a table, with each cell of "label" as its index in `labels`."""
    indices = {label: index for index, label in enumerate(labels)}
    label_ids = np.array([indices[label] for label in table.column("label")], dtype=np.int64)
    texts = TextInputs.from_table(table, pieces)
    return LabelledTexts(texts, encode.encode_table(table, pieces), label_ids)


def score_texts(
    model: nn.Module,
    rows: Ragged,
    labels: Sequence[int],
    tokenizer: Tokenizer,
    device: torch.device,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> tuple[ClassificationMetrics, Tensor]:
    """The metrics against the labels, and the probabilities (n, L)."""
    logits = predict_all(model, rows, tokenizer, device, processes)
    metrics = classification_metrics(labels, logits.argmax(-1).tolist(), logits.shape[1])
    return metrics, logits.softmax(-1)
