"""BM25 over character bigrams: the equation written out, and time in proportion to the text."""

import time
from collections import Counter
from math import log

import numpy as np
import pytest

from jumok.text.bm25 import K1, B, BigramIndex
from tests.text.sample_texts import SENTENCES


def bigrams(text: str) -> list[str]:
    """The bigrams of the words of a text, with the blanks around them."""
    written = f" {' '.join(text.lower().split())} "
    return [written[i : i + 2] for i in range(len(written) - 1)]


def written_out(texts: list[str], query: str) -> list[float]:
    """Equation 3.15 of Robertson and Zaragoza (2009)."""
    counts = [Counter(bigrams(text)) for text in texts]
    mean = sum(map(Counter.total, counts)) / len(texts)
    found = []
    for of_text in counts:
        score = 0.0
        for term in bigrams(query):
            df = sum(term in each for each in counts)
            idf = log(1 + (len(texts) - df + 0.5) / (df + 0.5))
            tf = of_text[term]
            score += idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * of_text.total() / mean))
        found.append(score)
    return found


@pytest.mark.parametrize("query", ["비가 온다", "", "ABC 비", "漢字 🙂🙂", "없는 말뿐"])
def test_scores_are_those_of_the_equation(query: str) -> None:
    texts = [*SENTENCES, "비가 온다 비가 온다", "", " \t", "비는 그쳤다 ABC abc", "🙂🙂 漢字"]
    found = BigramIndex.build(texts).scores(query)
    np.testing.assert_allclose(found, written_out(texts, query), rtol=1e-5, atol=1e-6)


def test_no_texts_and_no_characters() -> None:
    assert BigramIndex.build([]).scores("비").tolist() == []
    assert BigramIndex.build(["", " "]).scores("비").tolist() == [0, 0]


def test_a_lone_surrogate_is_a_character() -> None:
    assert BigramIndex.build(["\ud800 비", "눈"]).scores("\ud800").argmax() == 0


@pytest.mark.slow
def test_time_is_in_proportion_to_the_texts() -> None:
    """Eight times the lines take at most 32 times as long, where a square takes 64.

    Sorting adds a logarithm, and a line costs up to 2.5 times as much in arrays that leave the
    cache. The least of three is compared, since another program delays single measurements.
    """
    rng = np.random.default_rng(0)
    syllables = rng.integers(0xAC00, 0xAC00 + 11_172, (80_000, 30))
    texts = ["".join(map(chr, row)) for row in syllables]
    few, many = (min(seconds_to_build(texts[:n]) for _ in range(3)) for n in (10_000, 80_000))
    assert many < 32 * few


def seconds_to_build(texts: list[str]) -> float:
    """The processor time of one index."""
    started = time.process_time()
    BigramIndex.build(texts)
    return time.process_time() - started
