"""Compare runs on the same rows: paired bootstrap, and the rows on which they differ.

Shapes: n rows, K entity types.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from jumok.data.files.label_sets import join_labels
from jumok.data.table import Table
from jumok.errors import InputError
from jumok.evaluation.bootstrap import PairedDifference, RowStatistics, paired_bootstrap
from jumok.evaluation.entities import EntityCounts, entities
from jumok.tasks.classification import label_table
from jumok.tasks.inputs.text_encoder import TextEncoder, TextInputs
from jumok.tasks.inputs.token_labels import LabelledTokens
from jumok.tasks.multi_label import chosen_labels, label_probabilities, multi_label_table
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.pipeline.sequence_classification import predict_all
from jumok.tasks.recipe.task_spec import TaskName
from jumok.tasks.regression import predict_scores
from jumok.tasks.similarity import cosines, read_pairs, vectors_of
from jumok.tasks.token_classification import (
    drop_spaces,
    predict_tags,
    texts_type,
    to_entities,
)
from jumok.unicode_forms import normalize


@dataclass(frozen=True)
class RunOutputs:
    """The outputs of a run for all rows, as text, and the statistics of each metric."""

    texts: Sequence[str]
    expected: Sequence[str]
    outputs: Sequence[str]
    statistics: Mapping[str, RowStatistics]


@dataclass(frozen=True)
class DifferentRow:
    """A row for which the first runs of two systems have different outputs."""

    row: int  # from 1
    text: str
    expected: str
    first: str
    second: str


@dataclass(frozen=True)
class Comparison:
    """Two systems: every metric with its certainty, and the rows on which they differ.

    Rows that exactly one of them has right come first.
    """

    n: int
    metrics: Mapping[str, PairedDifference]
    different: Sequence[DifferentRow]


def compare(first: Sequence[Pipeline], second: Sequence[Pipeline], table: Table) -> Comparison:
    """Compare two systems on the rows of a table; the runs of a system are its seeds.

    Raises InputError for a table without rows, for different tasks or labels, and for a task
    without outputs for single rows (language modeling).
    """
    pipelines = (*first, *second)
    check_comparable(pipelines)
    if not len(table):
        raise InputError("the rows to compare on must be at least one, got none; name another file")
    ours = [run_outputs(pipeline, table) for pipeline in first]
    theirs = [run_outputs(pipeline, table) for pipeline in second]
    return Comparison(
        len(table),
        {
            metric: paired_bootstrap(
                [run.statistics[metric] for run in ours], [run.statistics[metric] for run in theirs]
            )
            for metric in ours[0].statistics
        },
        different_rows(ours[0], theirs[0]),
    )


def group_by_seed(pipelines: Sequence[Pipeline]) -> list[list[int]]:
    """The indices of the runs of each system: runs whose recipes differ only in the seed.

    If all of them are one system, each run is a system of its own.
    """
    groups: dict[str, list[int]] = {}
    for index, pipeline in enumerate(pipelines):
        groups.setdefault(repr(replace(pipeline.recipe, seed=0)), []).append(index)
    if len(groups) == 1:
        return [[index] for index in range(len(pipelines))]
    return list(groups.values())


def check_comparable(pipelines: Sequence[Pipeline]) -> None:
    """Raise InputError unless the runs have one task that can be compared, and the same labels."""
    tasks = {pipeline.recipe.task for pipeline in pipelines}
    if len(tasks) > 1:
        raise InputError(f"the runs must have the same task, got {', '.join(sorted(tasks))}")
    (task,) = tasks
    if task not in _OUTPUTS:
        raise InputError(
            f"runs of the task {task} have no output for single rows to compare; use jumok evaluate"
        )
    labels = {frozenset(pipeline.labels) for pipeline in pipelines}
    if len(labels) > 1:
        raise InputError(
            "the runs must have the same labels, got "
            + " and ".join(", ".join(sorted(found)[:10]) for found in labels)
        )


@torch.inference_mode()
def run_outputs(pipeline: Pipeline, table: Table) -> RunOutputs:
    """The outputs and statistics of a run for all rows of a table."""
    pipeline.check_supported()
    return _OUTPUTS[pipeline.recipe.task](pipeline, table)


def different_rows(first: RunOutputs, second: RunOutputs) -> list[DifferentRow]:
    """The rows with different outputs; those that exactly one run has right come first."""
    rows = zip(first.texts, first.expected, first.outputs, second.outputs, strict=True)
    found = [
        DifferentRow(number, text, expected, one, other)
        for number, (text, expected, one, other) in enumerate(rows, 1)
        if one != other
    ]
    return sorted(found, key=lambda row: row.expected not in (row.first, row.second))


def _classification(pipeline: Pipeline, table: Table) -> RunOutputs:
    encode = TextEncoder(pipeline.vocabulary, pipeline.recipe.model.max_length)
    labels = pipeline.labels
    data = label_table(table, pipeline.recipe.data.pieces, encode, labels)
    logits = predict_all(pipeline.model, data.ids, pipeline.vocabulary, pipeline.device)
    predicted = logits.argmax(-1).numpy()
    return RunOutputs(
        [data.texts.display(i) for i in range(len(table))],
        [labels[i] for i in data.labels],
        [labels[i] for i in predicted],
        {"accuracy": _fraction(predicted == data.labels)},
    )


def _multi_label(pipeline: Pipeline, table: Table) -> RunOutputs:
    encode = TextEncoder(pipeline.vocabulary, pipeline.recipe.model.max_length)
    data = multi_label_table(table, encode, pipeline.labels)
    threshold = pipeline.recipe.multi_label.threshold
    predicted, truth = label_probabilities(pipeline, data.ids) >= threshold, data.labels > 0
    counts = np.stack([x.sum(-1) for x in (truth, predicted, truth & predicted)], -1)
    return RunOutputs(
        [data.texts.display(i) for i in range(len(table))],
        [join_labels(chosen_labels(row, pipeline.labels)) for row in truth],
        [join_labels(chosen_labels(row, pipeline.labels)) for row in predicted],
        {
            "micro_f1": RowStatistics(counts.astype(np.float64), _micro_f1),
            "exact_match": _fraction((truth == predicted).all(-1)),
        },
    )


def _regression(pipeline: Pipeline, table: Table) -> RunOutputs:
    encode = TextEncoder(pipeline.vocabulary, pipeline.recipe.model.max_length)
    return _scores(table, predict_scores(pipeline, encode.encode_table(table)))


def _similarity(pipeline: Pipeline, table: Table) -> RunOutputs:
    pairs = read_pairs(table, pipeline.vocabulary, pipeline.recipe)
    if not pairs.has_scores:
        raise InputError(
            "runs of the task similarity need scores to compare rows, got pairs without; use "
            "jumok evaluate"
        )
    found = vectors_of(pipeline.model, pairs, pipeline.vocabulary, pipeline.device)
    return _scores(table, cosines(*found).double().numpy())


def _scores(table: Table, predicted: NDArray[np.float64]) -> RunOutputs:
    """Scores of rows with a score, compared by Pearson's correlation."""
    truth = np.array(table.numbers("score")[:])
    texts = TextInputs.from_table(table)
    x, y = truth - truth.mean(), predicted - predicted.mean()  # sums of squares stay exact
    statistics = np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], -1)
    return RunOutputs(
        [texts.display(i) for i in range(len(table))],
        [f"{value:.2f}" for value in truth],
        [f"{value:.2f}" for value in predicted],
        {"pearson": RowStatistics(statistics, _pearson)},
    )


def _tagging(pipeline: Pipeline, table: Table) -> RunOutputs:
    encode = TextEncoder(pipeline.vocabulary, pipeline.recipe.model.max_length)
    data = LabelledTokens.from_table(table, encode, texts_type(pipeline.recipe.model))
    texts = data.texts.texts
    predicted = predict_tags(pipeline, data.texts)
    kinds = sorted({tag[2:] for tag in pipeline.labels if tag.startswith("B-")})
    counts = np.zeros((len(texts), len(kinds), 3))  # expected, predicted, correct
    rows = zip(drop_spaces(data.tags, texts), drop_spaces(predicted, texts), strict=True)
    for row, (truth, ours) in enumerate(rows):
        expected, found = entities(truth), entities(ours)
        for column, chosen in enumerate((expected, found, expected & found)):
            for entity in chosen:
                counts[row, kinds.index(entity.kind), column] += 1
    return RunOutputs(
        texts,
        [to_entities(text, tags).display for text, tags in zip(texts, data.tags, strict=True)],
        [to_entities(text, tags).display for text, tags in zip(texts, predicted, strict=True)],
        {"entity_f1": RowStatistics(counts.reshape(len(texts), -1), _macro_f1)},
    )


def _sequence_to_sequence(pipeline: Pipeline, table: Table) -> RunOutputs:
    from sacrebleu.metrics import BLEU  # type: ignore[attr-defined]

    sources = list(table.column("source"))
    targets = [normalize("NFC", target) for target in table.column("target")]
    outputs = [normalize("NFC", output.display) for output in pipeline.predict(sources)]
    bleu = BLEU()
    counted = []
    for output, target in zip(outputs, targets, strict=True):
        found = bleu.corpus_score([output], [[target]])
        counted.append([found.sys_len, found.ref_len, *found.counts, *found.totals])
    return RunOutputs(
        sources,
        targets,
        outputs,
        {
            "exact_match": _fraction(np.array(outputs) == np.array(targets)),
            "bleu": RowStatistics(np.array(counted, np.float64), partial(_bleu, bleu.compute_bleu)),
        },
    )


_OUTPUTS: Mapping[TaskName, Callable[[Pipeline, Table], RunOutputs]] = {
    "classification": _classification,
    "multi_label_classification": _multi_label,
    "regression": _regression,
    "similarity": _similarity,
    "tagging": _tagging,
    "sequence_to_sequence": _sequence_to_sequence,
}


def _fraction(correct: NDArray[np.bool_]) -> RowStatistics:
    """The fraction of correct rows."""
    values = np.stack([np.ones(len(correct)), correct], -1)
    return RowStatistics(values, lambda sums: float(sums[1] / sums[0]))


def _pearson(sums: NDArray[np.float64]) -> float:
    """Pearson's correlation from the sums of 1, x, y, x^2, y^2 and x y; 0 if one is constant."""
    n, x, y, xx, yy, xy = sums
    variances = (xx - x * x / n) * (yy - y * y / n)
    return float((xy - x * y / n) / np.sqrt(variances)) if variances > 0 else 0.0


def _macro_f1(sums: NDArray[np.float64]) -> float:
    """The mean F1 of the entity types that are expected or predicted, from counts (K * 3)."""
    counts = [EntityCounts(*map(int, row)) for row in sums.reshape(-1, 3)]
    found = [each.f1 for each in counts if each.expected or each.predicted]
    return sum(found) / max(len(found), 1)


def _micro_f1(sums: NDArray[np.float64]) -> float:
    """F1 from the counts of expected, predicted and correct labels."""
    expected, predicted, correct = sums
    return float(2 * correct / max(expected + predicted, 1))


def _bleu(compute: Callable[..., object], sums: NDArray[np.float64]) -> float:
    """BLEU from the lengths, and the counts and totals of the n-grams."""
    sys_len, ref_len, *grams = map(int, sums)
    half = len(grams) // 2
    found = compute(grams[:half], grams[half:], sys_len, ref_len, smooth_method="exp")
    return float(found.score)  # type: ignore[attr-defined]
