"""The chatbot answered by the nearest known question: vectors of a model, BM25, and both together.

    python benchmarks/retrieval.py RUN_OR_NAME [...]

The answer is that of the training question with the highest score. The score of both is w cosine +
(1 - w) BM25, divided by the best BM25 of the question. Each model and the weight w are chosen on
dev; the test questions are read once, with the best model.
"""

import argparse
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from baselines import Search, baselines
from numpy.typing import NDArray
from turns import heading

import jumok
from jumok.data.config import DataConfig
from jumok.data.load import load_splits
from jumok.data.splits import SEQUENCES
from jumok.data.table import Table
from jumok.evaluation import sequence_metrics

RESULTS = Path(__file__).parent / "results" / "retrieval.txt"
TERMS: dict[str, Any] = {"analyzer": "char_wb", "ngram_range": (1, 2)}  # the best of BM25 on dev
WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)  # of the cosine
Scores: TypeAlias = NDArray[np.float64]  # (questions, known questions)


def main() -> None:
    """Print and keep the table."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("models", nargs="+")
    given = arguments.parse_args()
    names = [Path(model).name for model in given.models]
    lines = [
        heading(f"python benchmarks/retrieval.py {' '.join(names)}", "sacrebleu"),
        "",
        f"{'chrF':<44}{'dev':>8}{'test':>8}",
    ]
    for found in baselines("chatbot"):
        lines.append(f"{found.name:<44}{found.dev:8.2f}{found.test['chrf']:8.2f}")
    splits = load_splits(DataConfig(corpus="chatbot"), SEQUENCES)
    known = splits.train
    bm25 = {name: _bm25(known, splits[name]) for name in ("dev", "test")}
    cosines = {(name, "dev"): _cosines(name, known, splits.dev) for name in given.models}
    on_dev = {
        (model, weight): _chrf(known, splits.dev, _both(cosines[model, "dev"], bm25["dev"], weight))
        for model in given.models
        for weight in (*WEIGHTS, 1.0)
    }
    alone = max(given.models, key=lambda model: on_dev[model, 1.0])
    together = max((key for key in on_dev if key[1] < 1), key=lambda key: on_dev[key])
    for key in {alone, together[0]}:
        cosines[key, "test"] = _cosines(key, known, splits.test)
    for model, name in zip(given.models, names, strict=True):
        weight = max(WEIGHTS, key=lambda weight: on_dev[model, weight])
        for kind, key, best in (
            (f"vectors of {name}", (model, 1.0), (alone, 1.0)),
            (f"vectors of {name} {weight:g}, BM25 {1 - weight:.1f}", (model, weight), together),
        ):
            test = f"{'-':>8}"
            if key == best:
                scores = _both(cosines[model, "test"], bm25["test"], key[1])
                test = f"{_chrf(known, splits.test, scores):8.2f}"
            lines.append(f"{kind:<44}{on_dev[key]:8.2f}{test}")
    text = "\n".join([*lines, ""])
    print(text)
    RESULTS.write_text(text, encoding="utf-8")


def _cosines(model: str, known: Table, asked: Table) -> Scores:
    """The cosine of each question with each known one, by the vectors of a model."""
    pipeline = jumok.load(model)
    u, v = (
        pipeline.encode(list(table.column("source")), normalize=True) for table in (asked, known)
    )
    cosines: Scores = (u @ v.T).astype(np.float64)
    return cosines


def _bm25(known: Table, asked: Table) -> Scores:
    """BM25 of each question with each known one, divided by the best of the question."""
    scores = Search(list(known.column("source")), TERMS).scores(list(asked.column("source")))
    scores /= np.maximum(scores.max(-1, keepdims=True), 1e-9)
    return scores


def _both(cosines: Scores, bm25: Scores, weight: float) -> Scores:
    return weight * cosines + (1 - weight) * bm25


def _chrf(known: Table, asked: Table, scores: Scores) -> float:
    """chrF of the answers to the known questions with the highest scores."""
    targets = known.column("target")
    answers = [targets[int(i)] for i in scores.argmax(-1)]
    return sequence_metrics(answers, list(asked.column("target"))).chrf


if __name__ == "__main__":
    main()
