"""Evaluation metrics of predictions and of generated text."""

from typing import TYPE_CHECKING

from jumok.lazy import lazy_names

if TYPE_CHECKING:
    from jumok.evaluation.classification import (
        ClassificationMetrics,
        calibration_error,
        classification_metrics,
        label_scores,
    )
    from jumok.evaluation.entities import EntityMetrics, entity_metrics
    from jumok.evaluation.language_models import LanguageModelMetrics
    from jumok.evaluation.multi_label import MultiLabelMetrics, multi_label_metrics
    from jumok.evaluation.regression import RegressionMetrics, regression_metrics
    from jumok.evaluation.sequences import (
        SequenceMetrics,
        bleu_tokenizations,
        exact_match,
        sequence_metrics,
    )

__all__ = [
    "ClassificationMetrics",
    "EntityMetrics",
    "LanguageModelMetrics",
    "MultiLabelMetrics",
    "RegressionMetrics",
    "SequenceMetrics",
    "bleu_tokenizations",
    "calibration_error",
    "classification_metrics",
    "entity_metrics",
    "exact_match",
    "label_scores",
    "multi_label_metrics",
    "regression_metrics",
    "sequence_metrics",
]

__getattr__, __dir__ = lazy_names(
    __name__
)  # imported on first access: a classifier needs little of them
