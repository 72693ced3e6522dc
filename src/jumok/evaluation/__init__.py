"""Scores: how good an answer is, whoever gave it."""

from jumok.evaluation.calibration import calibration_error
from jumok.evaluation.classification import ClassificationScores, score_labels
from jumok.evaluation.entities import EntityScores, score_tags
from jumok.evaluation.language_models import LanguageModelScores
from jumok.evaluation.regression import RegressionScores, score_numbers
from jumok.evaluation.sequences import (
    SequenceScores,
    countings,
    exact_match,
    score_sequences,
)

__all__ = [
    "ClassificationScores",
    "EntityScores",
    "LanguageModelScores",
    "RegressionScores",
    "SequenceScores",
    "calibration_error",
    "countings",
    "exact_match",
    "score_labels",
    "score_numbers",
    "score_sequences",
    "score_tags",
]
