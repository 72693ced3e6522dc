"""Scores: how good an answer is, whoever gave it."""

from jumok.evaluation.calibration import calibration_error
from jumok.evaluation.classification import ClassificationMetrics, classification_metrics
from jumok.evaluation.entities import EntityMetrics, entity_metrics
from jumok.evaluation.language_models import LanguageModelMetrics
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
    "RegressionMetrics",
    "SequenceMetrics",
    "calibration_error",
    "bleu_tokenizations",
    "exact_match",
    "classification_metrics",
    "regression_metrics",
    "sequence_metrics",
    "entity_metrics",
]
