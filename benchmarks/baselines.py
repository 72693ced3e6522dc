"""Baselines without a neural network: the most frequent label, TF-IDF, BM25.

    python benchmarks/baselines.py --data FOLDER [ynat question_pair kornli korsts klue-ner chatbot]

TF-IDF of character n-grams with a linear model, and BM25 for the dialogue. N-grams and
regularization are chosen on the validation split; the test split is scored once. The features of a
pair are the weights of both texts, their differences, products and cosine; those of a character are
the n-grams around it.
"""

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import normalize

from jumok.data.config import DataConfig
from jumok.data.load import load_splits
from jumok.data.splits import PAIRS, REGRESSION, SEQUENCES, TAGGING
from jumok.data.table import Table
from jumok.evaluation import (
    bleu_tokenizations,
    classification_metrics,
    entity_metrics,
    regression_metrics,
    sequence_metrics,
)
from jumok.tasks.inputs import bio
from jumok.tasks.token_classification import character_f1, drop_spaces

Matrix: TypeAlias = sp.csr_matrix
Scores: TypeAlias = dict[str, float]
Way: TypeAlias = tuple[
    float, str, Callable[[], Scores]
]  # score on dev, what was chosen, scores on test

LETTERS: dict[str, Any] = {"analyzer": "char_wb", "sublinear_tf": True, "min_df": 2}
NGRAMS = ((1, 2), (1, 3), (2, 4))  # lengths of character n-grams within words
STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0)  # scikit-learn's C of logistic regression
PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0)  # alpha of the ridge regression
AROUND = 3  # characters of context on either side
DIALOGUE = ("exact_match", "bleu", "bleu_ko_mecab", "chrf")
K1, B = 1.2, 0.75  # of BM25 (Robertson and Zaragoza 2009)


@dataclass(frozen=True)
class Baseline:
    """The scores of a baseline, and what was chosen on the development split."""

    name: str
    chosen: str
    dev: float  # the selection score
    test: Scores
    seconds: float


def main() -> None:
    """Print a table of the given corpora, or of all."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("--data", type=Path, required=True)
    words.add_argument("corpora", nargs="*", default=list(BASELINES))
    given = words.parse_args()
    os.environ["JUMOK_DATA"] = str(given.data)
    for corpus in given.corpora:
        for found in baselines(corpus):
            scores = "  ".join(f"{name} {value:.4f}" for name, value in found.test.items())
            print(
                f"{corpus:<14} {found.name:<30} {scores}  ({found.chosen}; {found.seconds:.0f} s)"
            )


def baselines(corpus: str) -> list[Baseline]:
    """The baselines of a corpus by its name."""
    return BASELINES[corpus](corpus)


# Labels


def labels_of_texts(corpus: str, metric: str = "accuracy") -> list[Baseline]:
    """One label per text: the most frequent, and logistic regression on TF-IDF."""
    splits = load_splits(DataConfig(corpus=corpus))
    tables = [splits.train, splits.dev, splits.test]
    texts = [list(table.column("text")) for table in tables]
    return _labels(tables, splits.labels, lambda ngrams: letters(texts, ngrams), metric)


def labels_of_pairs(corpus: str) -> list[Baseline]:
    """One label per pair: the most frequent, and logistic regression on TF-IDF of both texts."""
    splits = load_splits(DataConfig(corpus=corpus), PAIRS)
    tables = [splits.train, splits.dev, splits.test]
    return _labels(tables, splits.labels, lambda ngrams: pairs(tables, ngrams))


def _labels(
    tables: Sequence[Table],
    labels: Sequence[str],
    features: Callable[[tuple[int, int]], list[Matrix]],
    metric: str = "accuracy",
) -> list[Baseline]:
    number = {label: i for i, label in enumerate(labels)}
    train, dev, test = (
        np.array([number[label] for label in table.column("label")]) for table in tables
    )

    def scores(expected: NDArray[np.int64], predicted: NDArray[np.int64]) -> Scores:
        found = classification_metrics(expected.tolist(), predicted.tolist(), len(labels))
        return {"accuracy": found.accuracy, "macro_f1": found.macro_f1}

    begin = time.perf_counter()
    commonest = Counter(train.tolist()).most_common(1)[0][0]
    guess = [np.full(len(expected), commonest) for expected in (dev, test)]
    majority = Baseline(
        "majority",
        labels[commonest],
        scores(dev, guess[0])[metric],
        scores(test, guess[1]),
        time.perf_counter() - begin,
    )

    def fitted(ngrams: tuple[int, int]) -> Iterator[Way]:
        matrices = features(ngrams)
        for strength in STRENGTHS:
            model = LogisticRegression(C=strength, max_iter=300).fit(matrices[0], train)
            on_dev = scores(dev, model.predict(matrices[1]))[metric]
            chosen = f"n-grams {ngrams}, C {strength}"
            yield on_dev, chosen, partial(scores, test, model.predict(matrices[2]))

    return [majority, best("TF-IDF, logistic regression", map(fitted, NGRAMS))]


# Scores


def scores_of_pairs(corpus: str) -> list[Baseline]:
    """One score per pair: the mean, the cosine of TF-IDF, and ridge regression on it."""
    splits = load_splits(DataConfig(corpus=corpus), REGRESSION)
    tables = [splits.train, splits.dev, splits.test]
    train, dev, test = (np.array(table.numbers("score")[:]) for table in tables)

    def scores(expected: NDArray[np.float64], predicted: NDArray[np.float64]) -> Scores:
        found = regression_metrics(expected, predicted)
        mse = float(np.mean((expected - predicted) ** 2))
        return {"pearson": found.pearson, "spearman": found.spearman, "mse": mse}

    mean = np.full(len(test), train.mean())
    always = Baseline("mean", f"{train.mean():.2f}", 0.0, scores(test, mean), 0.0)

    def alike(ngrams: tuple[int, int]) -> Iterator[Way]:
        cosines = [cosine(first, second) for first, second in both(tables, ngrams)]
        slope, offset = np.polyfit(cosines[0], train, 1)  # only scale and offset are fitted
        on_dev = scores(dev, cosines[1])["pearson"]
        yield on_dev, f"n-grams {ngrams}", partial(scores, test, slope * cosines[2] + offset)

    def fitted(ngrams: tuple[int, int]) -> Iterator[Way]:
        matrices = pairs(tables, ngrams)
        for penalty in PENALTIES:
            model = Ridge(alpha=penalty).fit(matrices[0], train)
            on_dev = scores(dev, model.predict(matrices[1]))["pearson"]
            chosen = f"n-grams {ngrams}, alpha {penalty}"
            yield on_dev, chosen, partial(scores, test, model.predict(matrices[2]))

    return [
        always,
        best("TF-IDF, cosine", map(alike, NGRAMS)),
        best("TF-IDF, ridge regression", map(fitted, NGRAMS)),
    ]


# Tags


def tags_of_texts(corpus: str) -> list[Baseline]:
    """A tag per character: O, and logistic regression on TF-IDF of the context."""
    splits = load_splits(DataConfig(corpus=corpus), TAGGING)
    tables = [splits.train, splits.dev, splits.test]
    tags = [[cell.split(" ") for cell in table.column("tags")] for table in tables]
    texts = [list(table.column("text")) for table in tables]

    def scores(split: int, predicted: list[list[str]]) -> Scores:
        expected, actual = (drop_spaces(rows, texts[split]) for rows in (tags[split], predicted))
        found = entity_metrics(expected, actual)
        return {
            "entity_f1": found.macro_f1,
            "entity_micro_f1": found.f1,
            "character_f1": character_f1(expected, actual),
        }

    outside = [["O"] * len(row) for row in tags[2]]
    majority = Baseline("majority", "O", 0.0, scores(2, outside), 0.0)

    def fitted() -> Iterator[Way]:
        vectorizer = TfidfVectorizer(analyzer=surroundings, sublinear_tf=True, min_df=2)
        locations = [
            [(text, place) for text in rows for place in range(len(text))] for rows in texts
        ]
        train = vectorizer.fit_transform(locations[0])
        matrices = [vectorizer.transform(rows) for rows in locations[1:]]
        for strength in (3.0, 10.0, 30.0):
            model = LogisticRegression(C=strength, max_iter=200)
            model.fit(train, [tag for row in tags[0] for tag in row])
            dev, test = (
                _tagged(model, matrix, rows)
                for matrix, rows in zip(matrices, texts[1:], strict=True)
            )
            yield scores(1, dev)["entity_f1"], f"C {strength}", partial(scores, 2, test)

    return [majority, best("TF-IDF, logistic regression", [fitted()])]


def _tagged(model: LogisticRegression, matrix: Matrix, texts: Sequence[str]) -> list[list[str]]:
    """The most likely valid tags of each text, its characters end to end in the matrix."""
    log_p = model.predict_log_proba(matrix).astype(np.float32)
    names = [str(name) for name in model.classes_]
    ends = np.cumsum([len(text) for text in texts])[:-1]
    return [[names[i] for i in bio.viterbi(rows, names)] for rows in np.split(log_p, ends)]


def surroundings(place: tuple[str, int]) -> list[str]:
    """The n-grams around a character of a text, each with its offset.

    >>> surroundings(("가나", 1))[:4]
    ['-3 ^', '-3 ^^', '-3 ^^가', '-2 ^']
    """
    text, centre = place
    wide = "^" * AROUND + text + "$" * (AROUND + 2)
    first = centre  # start of the window, AROUND characters before the centre
    return [
        f"{start - AROUND} {wide[first + start : first + start + n]}"
        for start in range(2 * AROUND + 1)
        for n in (1, 2, 3)
        if start + n <= 2 * AROUND + 1
    ]


# Dialogue


def answers_to_questions(corpus: str) -> list[Baseline]:
    """The most frequent answer, and the answer to the nearest training question by BM25."""
    splits = load_splits(DataConfig(corpus=corpus), SEQUENCES)
    asked, answered = (list(splits.train.column(name)) for name in SEQUENCES)

    def scores(table: Table, written: Sequence[str]) -> Scores:
        found = sequence_metrics(
            written, list(table.column("target")), bleu_tokenizations("ko"), "ko"
        )
        told = found.to_dict()
        return {name: float(told[name]) for name in DIALOGUE if name in told}

    commonest = Counter(answered).most_common(1)[0][0]
    always = [[commonest] * len(table) for table in (splits.dev, splits.test)]
    majority = Baseline(
        "majority",
        commonest,
        scores(splits.dev, always[0])["chrf"],
        scores(splits.test, always[1]),
        0.0,
    )

    def nearest(words: dict[str, Any]) -> Iterator[Way]:
        search = Search(asked, words)
        dev, test = (
            [answered[i] for i in search.nearest(list(table.column("source")))]
            for table in (splits.dev, splits.test)
        )
        chosen = " ".join(str(value) for value in words.values())
        yield scores(splits.dev, dev)["chrf"], chosen, partial(scores, splits.test, test)

    kinds: list[dict[str, Any]] = [{"analyzer": "word", "token_pattern": r"\S+"}]
    kinds += [{"analyzer": "char_wb", "ngram_range": ngrams} for ngrams in NGRAMS]
    return [majority, best("BM25, nearest question", map(nearest, kinds))]


class Search:
    """BM25 over texts: idf(t) tf(t) (k1 + 1) / (tf(t) + k1 (1 - b + b length / mean length)).

    Robertson and Zaragoza (2009), equation 3.15; idf is log(1 + (n - df + 0.5) / (df + 0.5)).

    >>> Search(["비가 와요", "배가 고파요"], {"analyzer": "word"}).nearest(["배가 많이 고파요"])
    [1]
    """

    def __init__(self, texts: Sequence[str], words: dict[str, Any]) -> None:
        self._counter = CountVectorizer(**words)
        counts = self._counter.fit_transform(texts).tocoo().astype(np.float64)  # (n, terms)
        lengths = np.asarray(counts.sum(1)).ravel()
        found_in = np.bincount(counts.col, minlength=counts.shape[1])
        idf = np.log1p((len(texts) - found_in + 0.5) / (found_in + 0.5))
        capacity = K1 * (1 - B + B * lengths / lengths.mean())
        weights = idf[counts.col] * counts.data * (K1 + 1) / (counts.data + capacity[counts.row])
        self._weights = sp.csr_matrix((weights, (counts.row, counts.col)), shape=counts.shape)

    def nearest(self, queries: Sequence[str]) -> list[int]:
        """The index of the nearest text for each query; the first one for ties."""
        return [int(i) for i in self.scores(queries).argmax(-1)]

    def scores(self, queries: Sequence[str]) -> NDArray[np.float64]:
        """BM25 of each query with each text, (queries, n)."""
        found = self._counter.transform(queries) @ self._weights.T
        return found.toarray()  # type: ignore[no-any-return]


# Shared features


def letters(texts: Sequence[Sequence[str]], ngrams: tuple[int, int]) -> list[Matrix]:
    """The TF-IDF of each list of texts, fitted on the first."""
    vectorizer = TfidfVectorizer(ngram_range=ngrams, **LETTERS).fit(texts[0])
    return [vectorizer.transform(part) for part in texts]


def both(tables: Sequence[Table], ngrams: tuple[int, int]) -> list[tuple[Matrix, Matrix]]:
    """The TF-IDF of both texts of the pairs of each table, fitted on the first table."""
    columns = [(list(table.column("text")), list(table.column("pair"))) for table in tables]
    vectorizer = TfidfVectorizer(ngram_range=ngrams, **LETTERS)
    vectorizer.fit([*columns[0][0], *columns[0][1]])
    return [
        (vectorizer.transform(first), vectorizer.transform(second)) for first, second in columns
    ]


def pairs(tables: Sequence[Table], ngrams: tuple[int, int]) -> list[Matrix]:
    """The features of pairs: both texts, their differences, products and cosine."""
    return [
        sp.hstack(
            [
                first,
                second,
                abs(first - second),
                first.multiply(second),
                sp.csr_matrix(cosine(first, second)[:, None]),
            ],
            format="csr",
        )
        for first, second in both(tables, ngrams)
    ]


def cosine(first: Matrix, second: Matrix) -> NDArray[np.float64]:
    """The cosine similarity of corresponding rows, (n,)."""
    return np.asarray(normalize(first).multiply(normalize(second)).sum(1)).ravel()


def best(name: str, ways: Iterable[Iterator[Way]]) -> Baseline:
    """The candidate with the best development score; the first one for ties."""
    begin = time.perf_counter()
    tried = [way for some in ways for way in some]
    dev, chosen, test = max(tried, key=lambda way: way[0])
    return Baseline(name, chosen, dev, test(), time.perf_counter() - begin)


BASELINES: dict[str, Callable[[str], list[Baseline]]] = {
    "ynat": labels_of_texts,
    "3i4k": labels_of_texts,
    "hate": partial(labels_of_texts, metric="macro_f1"),
    "question_pair": labels_of_pairs,
    "kornli": labels_of_pairs,
    "korsts": scores_of_pairs,
    "klue-ner": tags_of_texts,
    "chatbot": answers_to_questions,
}


if __name__ == "__main__":
    main()
