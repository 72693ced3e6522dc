"""Similarity: vectors of texts whose cosine is their similarity (Reimers and Gurevych 2019).

The model reads each text alone, so that vectors can be computed once and searched
(`Pipeline.encode`, `jumok search`). Shapes: n pairs, P of them positive, D model width.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.data.table import Table
from jumok.decoding.finite import non_finite_error
from jumok.errors import InputError
from jumok.evaluation import regression_metrics
from jumok.models import SentenceEncoder
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.tasks.inputs.text_encoder import TextEncoder, TextInputs
from jumok.tasks.pipeline.outputs import EvaluationResult, RegressionOutput
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.pipeline.sequence_classification import predict_all
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import ModelConfig
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer

CHUNK_ROWS = 1_024  # rows of a similarity matrix that are in memory at once


@dataclass(frozen=True)
class TextPairs:
    """The input ids of the texts of each pair, and how similar they are.

    `targets` (n,) float32 are scores scaled by [regression]; without scores 1 is a pair that
    belongs together and 0 one whose second text is only a candidate.
    """

    first: Ragged
    second: Ragged
    targets: NDArray[np.float32]
    has_scores: bool

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens of both texts, (n, 2)."""
        return np.stack([self.first.lengths, self.second.lengths], -1)


class SimilarityTask:
    """The cosine of the vectors of two texts."""

    def build_model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """An encoder with pooling and no head."""
        assert config.pooling != "compare"
        return SentenceEncoder(config, config.pooling)

    def evaluate(self, pipeline: Pipeline, table: Table, split: str) -> EvaluationResult:
        """Correlations with the scores; without scores the accuracy of retrieval."""
        recipe = pipeline.recipe
        pairs = read_pairs(table, pipeline.vocabulary, recipe)
        u, v = vectors_of(
            pipeline.model, pairs, pipeline.vocabulary, pipeline.device, pipeline.processes
        )
        scores: dict[str, object] = {"task": recipe.task, "split": split, "n": len(pairs.targets)}
        if pairs.has_scores:
            metrics = regression_metrics(pairs.targets.tolist(), cosines(u, v).tolist())
            scores |= {"pearson": metrics.pearson, "spearman": metrics.spearman}
        else:
            scores |= {"accuracy": retrieval(u, v, pairs.targets, recipe)[1]}
        return EvaluationResult(scores)

    def predict(self, pipeline: Pipeline, texts: Sequence[str]) -> list[RegressionOutput]:
        """The cosine of two texts separated by a TAB, from -1 to 1."""
        inputs = TextInputs.from_lines(texts, paired=True)
        assert inputs.pairs is not None
        pairs = _encode(inputs.texts, inputs.pairs, pipeline.vocabulary, pipeline.recipe)
        found = cosines(*vectors_of(pipeline.model, pairs, pipeline.vocabulary, pipeline.device))
        if not torch.isfinite(found).all():
            raise non_finite_error("scores")
        return [
            RegressionOutput(text, score) for text, score in zip(texts, found.tolist(), strict=True)
        ]


def read_pairs(table: Table, tokenizer: Tokenizer, recipe: Recipe) -> TextPairs:
    """The pairs of a table with their targets; pairs of other labels are left out.

    Raises InputError when no pair has the label `similarity.positive`.
    """
    config, scale = recipe.similarity, recipe.regression
    n = len(table)
    if config.positive:
        labels = np.array(table.column("label"), dtype=object)
        kept = np.flatnonzero((labels == config.positive) | (labels == (config.negative or None)))
        targets = (labels[kept] == config.positive).astype(np.float32)
        if not targets.any():
            raise InputError(
                f"similarity.positive must be a label of the pairs, got {config.positive!r}; the "
                f"labels are {', '.join(sorted(set(labels.tolist())))}"
            )
    elif "score" in table.column_names:
        kept = np.arange(n)
        targets = (np.array(table.numbers("score")[:]) - scale.lowest) / scale.span
    else:
        kept, targets = np.arange(n), np.ones(n, np.float32)
    texts, others = table.column("text"), table.column("pair")
    rows = kept.tolist()
    pairs = _encode([texts[i] for i in rows], [others[i] for i in rows], tokenizer, recipe)
    has_scores = "score" in table.column_names and not config.positive
    return TextPairs(pairs.first, pairs.second, targets.astype(np.float32), has_scores)


def pair_with_itself(texts: Sequence[str], tokenizer: Tokenizer, recipe: Recipe) -> TextPairs:
    """Each distinct text as a pair of the same text, which belongs together."""
    distinct = list(dict.fromkeys(texts))
    ids = TextEncoder(tokenizer, recipe.model.max_length)(distinct)
    return TextPairs(ids, ids, np.ones(len(distinct), np.float32), has_scores=False)


def vectors_of(
    model: nn.Module,
    pairs: TextPairs,
    tokenizer: Tokenizer,
    device: torch.device,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> tuple[Tensor, Tensor]:
    """The unit vectors of both texts of each pair, 2 x (n, D) float32 on the CPU."""
    both = Ragged.concat([pairs.first, pairs.second])
    vectors = predict_all(model, both, tokenizer, device, processes)  # (2n, D)
    return vectors[: len(pairs.first)], vectors[len(pairs.first) :]


def cosines(u: Tensor, v: Tensor) -> Tensor:
    """The cosine of each pair of unit vectors, 2 x (n, D) -> (n,)."""
    return (u * v).sum(-1)


def retrieval(
    u: Tensor, v: Tensor, targets: NDArray[np.float32], recipe: Recipe
) -> tuple[float, float]:
    """The mean loss, and the fraction of positive pairs whose second text is the nearest of all.

    u, v (n, D) unit vectors. A second text that occurs several times counts as the same text.
    """
    positives = torch.from_numpy(np.flatnonzero(targets))  # (P,)
    loss, correct = 0.0, 0
    for rows in torch.split(positives, CHUNK_ROWS):
        similarity = u[rows] @ v.T  # (P, n)
        own = similarity.gather(1, rows[:, None])[:, 0]  # (P,)
        normalizer = (similarity / recipe.similarity.temperature).logsumexp(-1)
        loss += float((normalizer - own / recipe.similarity.temperature).sum())
        correct += int((own >= similarity.amax(-1) - 1e-6).sum())  # equal texts differ by rounding
    return loss / max(len(positives), 1), correct / max(len(positives), 1)


def _encode(
    first: Sequence[str], second: Sequence[str], tokenizer: Tokenizer, recipe: Recipe
) -> TextPairs:
    encode = TextEncoder(tokenizer, recipe.model.max_length)
    return TextPairs(encode(first), encode(second), np.zeros(len(first), np.float32), True)
