"""Scores: how good an answer is, whoever gave it."""

from jumok.evaluation.calibration import calibration_error
from jumok.evaluation.classification import ClassificationScores, score_labels
from jumok.evaluation.entities import EntityScores, score_tags
from jumok.evaluation.language import LanguageScores, score_language, utf8_bytes
from jumok.evaluation.regression import RegressionScores, score_numbers
from jumok.evaluation.sequences import (
    Difference,
    SequenceScores,
    compare,
    countings,
    exact_match,
    score_sequences,
)

__all__ = [
    "ClassificationScores",
    "Difference",
    "EntityScores",
    "LanguageScores",
    "RegressionScores",
    "SequenceScores",
    "calibration_error",
    "compare",
    "countings",
    "exact_match",
    "score_labels",
    "score_language",
    "score_numbers",
    "score_sequences",
    "score_tags",
    "utf8_bytes",
]
