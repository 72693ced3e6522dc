"""Scores: how good an answer is, whoever gave it."""

from jumok.evaluation.classification import ClassificationScores, score_labels
from jumok.evaluation.sequences import SequenceScores, exact_match, score_sequences

__all__ = [
    "ClassificationScores",
    "SequenceScores",
    "exact_match",
    "score_labels",
    "score_sequences",
]
