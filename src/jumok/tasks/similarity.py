"""Similarity: vectors of texts whose cosine is their similarity (Reimers and Gurevych 2019).

The model reads each text alone, so that vectors can be computed once and searched
(`Pipeline.encode`, `jumok search`). Shapes: n pairs, P of them positive, D model width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.errors import InputError
from jumok.evaluation import regression_metrics
from jumok.evaluation.own_metric import own_scores
from jumok.models import SentenceEncoder
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.tasks.inputs.batches import LazyBatches, PaddedBatch, collate
from jumok.tasks.inputs.text_encoder import TextEncoder, TextInputs
from jumok.tasks.inputs.unlabelled_texts import unlabelled_texts
from jumok.tasks.pipeline import predictions
from jumok.tasks.pipeline.outputs import EvaluationResult, RegressionOutput, RunOutputs
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.pipeline.predictions import check_finite, score_outputs
from jumok.tasks.pipeline.sequence_classification import forward, predict_all
from jumok.tasks.recipe.fixed_values import check_values, for_task, with_key
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.shipped_start import SHIPPED_VECTORS
from jumok.tasks.recipe.tables import (
    DistillationConfig,
    ModelConfig,
    RegressionConfig,
    SimilarityConfig,
)
from jumok.tasks.registry import JOBS
from jumok.tasks.shared.recipe_job import RecipeJob
from jumok.tasks.shared.row_statistics import compare_scores
from jumok.tasks.task import Task
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer
from jumok.training.job import DevResult

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


class SimilarityTask(Task):
    """The cosine of the vectors of two texts."""

    metrics = ("spearman", "pearson", "accuracy")
    columns = ("text", "pair", "score", "label")
    tables = (
        ("regression", RegressionConfig),
        ("similarity", SimilarityConfig),
        ("distillation", DistillationConfig),
    )
    pretokenizes = compares_rows = True
    joins_pairs = False
    answer = "vector"
    korean = "글을 벡터로 바꾸어 두 글의 유사도를 재는"

    def build_model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """An encoder with pooling and no head."""
        assert config.pooling != "compare"
        return SentenceEncoder(config, config.pooling)

    def n_outputs(self, config: ModelConfig, labels: Sequence[str]) -> int:
        """The numbers of a vector of length 1."""
        return config.d_model

    def job(self, recipe: Recipe) -> type[RecipeJob[Any]]:
        """Scores of pairs, or pairs that belong together; with teachers their vectors alone."""
        return (
            JOBS.get("similarity.distillation") if recipe.distillation.teachers else SimilarityJob
        )

    def start(self, *, paired: bool) -> tuple[str, dict[str, Any]] | None:
        """The shipped vectors."""
        return SHIPPED_VECTORS, {}

    def columns_of(self, recipe: Recipe) -> tuple[str, ...]:
        """Both texts, and a score, a label or neither."""
        if recipe.similarity.positive:
            return ("text", "pair", "label")
        return ("text", "pair", *(["score"] if recipe.scored else []))

    def metric_of(self, recipe: Recipe) -> str:
        """Pairs without scores have the accuracy of retrieval alone."""
        return super().metric_of(recipe) if "score" in self.columns_of(recipe) else "accuracy"

    def check_recipe(self, recipe: Recipe) -> None:
        """Raise InputError for a recipe without pairs, or a metric of other data."""
        check_pairs(recipe)
        if recipe.distillation.teachers:
            check_distillation(recipe)

    def evaluate(self, pipeline: Pipeline, table: Table, split: str) -> EvaluationResult:
        """Correlations with the scores; without scores the accuracy of retrieval."""
        recipe = pipeline.recipe
        pairs = read_pairs(table, pipeline.vocabulary, recipe)
        u, v = vectors_of(
            pipeline.model, pairs, pipeline.vocabulary, pipeline.device, pipeline.processes
        )
        scores: dict[str, object] = {"task": recipe.task, "split": split, "n": len(pairs.targets)}
        if pairs.has_scores:
            metrics = regression_metrics(pairs.targets.tolist(), _scores(u, v).tolist())
            scores |= {"pearson": metrics.pearson, "spearman": metrics.spearman}
            scores |= own_scores(recipe.metric, pairs.targets.tolist(), _scores(u, v).tolist())
        else:
            scores |= {"accuracy": retrieval(u, v, pairs.targets, recipe)[1]}
        return EvaluationResult(scores)

    def predict(self, pipeline: Pipeline, texts: Sequence[str]) -> list[RegressionOutput]:
        """The cosine of two texts separated by a TAB, from -1 to 1."""
        inputs = TextInputs.from_lines(texts, paired=True)
        assert inputs.pairs is not None
        pairs = _encode(inputs.texts, inputs.pairs, pipeline.vocabulary, pipeline.recipe)
        u, v = vectors_of(pipeline.model, pairs, pipeline.vocabulary, pipeline.device)
        scores = _scores(u, v).astype(np.float64)
        check_finite(scores, "the scores")
        return score_outputs(texts, scores)

    def row_outputs(self, pipeline: Pipeline, table: Table) -> RunOutputs:
        """The cosine of each pair; the metric is Pearson's correlation."""
        pairs = read_pairs(table, pipeline.vocabulary, pipeline.recipe)
        if not pairs.has_scores:
            raise InputError(
                "task.no_scores_to_compare",
                "runs of the task similarity need scores to compare rows, got pairs without; use "
                "jumok evaluate",
            )
        found = vectors_of(pipeline.model, pairs, pipeline.vocabulary, pipeline.device)
        return compare_scores(table, _scores(*found).astype(np.float64))


def check_pairs(recipe: Recipe) -> None:
    """Raise InputError where a recipe has no pairs, or a metric of other data."""
    if not recipe.paired:
        raise InputError(
            "task.no_pairs",
            "the task similarity needs pairs of texts, got single texts; name the column of the "
            "second text with data.pair",
        )
    if recipe.model.pooling == "compare":
        raise InputError(
            "task.pooling_of_vectors",
            'model.pooling must be "mean", "first" or "max" for the task similarity, whose '
            'vectors are of single texts, got "compare"',
        )
    has_scores = "score" in recipe.columns
    if recipe.metric is not None and has_scores == (recipe.metric == "accuracy"):
        raise InputError(
            "task.metric_of_pairs",
            "metric must be {expected} for pairs {kind}, got {metric}; leave it out",
            expected="spearman, pearson" if has_scores else "accuracy",
            kind="with scores" if has_scores else "without scores",
            metric=recipe.metric,
        )
    plain = recipe.similarity.corpus or recipe.similarity.texts
    if plain and not recipe.model.dropout:
        raise InputError(
            "task.no_dropout",
            "model.dropout must be above 0 with similarity.texts or corpus, whose pairs differ "
            "by dropout alone, got 0; try 0.1",
        )
    if recipe.data.label and not recipe.similarity.positive:
        raise InputError(
            "task.no_positive_label",
            "similarity.positive must name the label of similar pairs in {label!r}; set it, or "
            "leave out data.label",
            label=recipe.data.label,
        )
    if recipe.data.score and recipe.similarity.positive:
        raise InputError(
            "task.two_measures_of_similarity",
            "data.score and similarity.positive both select the similar pairs; leave one out",
        )


def check_distillation(recipe: Recipe) -> None:
    """Raise InputError for settings that vectors of teachers exclude."""
    config = recipe.distillation
    only_loss = {"distillation.temperature": 1.0, "distillation.weight": 1.0}
    check_values(recipe, only_loss, for_task(recipe.task))
    own_texts = SimilarityConfig()
    unread = {
        f"similarity.{key}": getattr(own_texts, key)
        for key in ("temperature", "corpus", "texts", "rows")
    }
    check_values(recipe, unread, with_key("distillation.teachers"))
    model = recipe.model
    narrow = model.init or model.d_embedding
    if model.n_layers:
        begins = model.norm_first and model.norm == "layer"
        begins = begins and model.positions in ("rotary", "relative")
    else:
        begins = not (model.norm_first or model.scale_embedding) and model.positions == "none"
    if config.token_vectors and (narrow or not begins):
        raise InputError(
            "task.token_vectors_of_other_model",
            "distillation.token_vectors needs a new model with norm_first = true, norm = "
            '"layer", positions = "rotary" or "relative" and no d_embedding, or with n_layers = 0, '
            'norm_first = false, positions = "none" and scale_embedding = false; set these, or '
            "leave it out",
        )


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
                "task.unknown_positive_label",
                "similarity.positive must be a label of the pairs, got {positive!r}; the labels "
                "are {labels}",
                positive=config.positive,
                labels=", ".join(sorted(set(labels.tolist()))),
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


def check_scores(train: Table, recipe: Recipe) -> None:
    """Raise InputError for scores that no cosine can reach, which pull all vectors together."""
    if "score" not in train.column_names or recipe.similarity.positive:
        return
    scores, scale = np.array(train.numbers("score")[:]), recipe.regression
    for name, found, fits in (
        ("lowest", float(scores.min()), scores.min() >= scale.lowest),
        ("highest", float(scores.max()), scores.max() <= scale.highest),
    ):
        if not fits:
            raise InputError(
                "task.score_out_of_range",
                "scores must be from regression.lowest to regression.highest, {lowest:g} to "
                "{highest:g}, got {found:g}; set regression.{name} to that of the scale",
                lowest=scale.lowest,
                highest=scale.highest,
                found=found,
                name=name,
            )


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


def _scores(u: Tensor, v: Tensor) -> NDArray[np.float32]:
    """The cosine of each pair of unit vectors, 2 x (n, D) -> (n,), as predictions have it."""
    return predictions.cosines(u.numpy(), v.numpy())


def cosines(u: Tensor, v: Tensor) -> Tensor:
    """The same with gradients; rounding may give 1.0000002."""
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


@dataclass(frozen=True)
class TextPairBatch:
    """Both texts of pairs, padded separately, and the target of each pair."""

    first: PaddedBatch
    second: PaddedBatch
    targets: Tensor  # (B,) float32
    has_scores: bool

    @property
    def tokens(self) -> int:
        """The number of tokens without padding."""
        return self.first.n_tokens + self.second.n_tokens

    @property
    def n_targets(self) -> int:
        """The number of scores, or of pairs that belong together."""
        return len(self.targets) if self.has_scores else max(int(self.targets.sum()), 1)


class SimilarityJob(RecipeJob[TextPairBatch]):
    """Trains a `SentenceEncoder` by scores, or by the other texts of a batch."""

    def prepare(self, splits: Splits) -> None:
        """Encode both texts of each pair, or plain texts as pairs of the same text."""
        texts = unlabelled_texts(self.recipe.similarity, splits)
        if texts:
            self.train = pair_with_itself(texts, self.tokenizer, self.recipe)
        else:
            check_scores(splits.train, self.recipe)
            self.train = read_pairs(splits.train, self.tokenizer, self.recipe)
        self.dev = read_pairs(splits.dev, self.tokenizer, self.recipe)

    def epoch(self, number: int) -> LazyBatches[TextPairBatch]:
        """The batches of an epoch, with pairs of similar length together."""
        return LazyBatches(self.index_batches(self.train.lengths, number), self.pair_batch)

    def pair_batch(self, examples: NDArray[np.int64]) -> TextPairBatch:
        """The training pairs of these numbers."""
        first, second = (
            collate([rows[i] for i in examples], self.tokenizer.padding_id, self.device)
            for rows in (self.train.first, self.train.second)
        )
        targets = torch.from_numpy(self.train.targets[examples]).to(self.device)
        return TextPairBatch(first, second, targets, self.train.has_scores)

    def pair_cosines(self, batch: TextPairBatch) -> Tensor:
        """The cosine of the vectors of each pair, (B,)."""
        return cosines(
            *(forward(self.model, each, self.tokenizer) for each in (batch.first, batch.second))
        )

    def loss(self, batch: TextPairBatch) -> Tensor:
        """With scores (cosine - score)^2, otherwise the multiple negatives ranking loss; a sum.

        That loss is the cross-entropy of the second text of a pair among all second texts of the
        batch, by their cosines over the temperature (Henderson et al. 2017, section 4.4); other
        copies of the same second text are no candidates. Both texts are read separately, so the
        vectors of a text that is a pair with itself differ by dropout (SimCSE, Gao et al. 2021,
        section 3).
        """
        u, v = (forward(self.model, texts, self.tokenizer) for texts in (batch.first, batch.second))
        if self.own_loss is not None:
            return self.own_loss(u, v, batch.targets)
        if batch.has_scores:
            return F.mse_loss(cosines(u, v), batch.targets, reduction="sum")
        logits = u @ v.T / self.recipe.similarity.temperature  # (B, B)
        logits = logits.masked_fill(_other_copies(batch.second.input_ids), -torch.inf)
        positives = batch.targets.nonzero()[:, 0]
        return F.cross_entropy(logits[positives], positives, reduction="sum")

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """The correlation with the scores of the dev split, or the accuracy of retrieval."""
        u, v = vectors_of(self.model, self.dev, self.tokenizer, self.device, processes)
        if not self.dev.has_scores:
            loss, accuracy = retrieval(u, v, self.dev.targets, self.recipe)
            return DevResult(loss, accuracy, "accuracy")
        found = _scores(u, v)
        loss = float(np.mean((found - self.dev.targets) ** 2))
        rows = self.dev.targets.tolist(), found.tolist()
        return self.dev_result(loss, regression_metrics(*rows), *rows)


def _other_copies(ids: Tensor) -> Tensor:
    """Whether a row is another copy of the same text: (B, T) -> (B, B) bool, False at [i, i].

    >>> _other_copies(torch.tensor([[7, 8], [7, 9], [7, 8]])).int().tolist()
    [[0, 0, 1], [0, 0, 0], [1, 0, 0]]
    """
    same = (ids[:, None] == ids).all(-1)
    return same & ~torch.eye(len(ids), dtype=torch.bool, device=ids.device)
