"""The baselines of the benchmarks: BM25 by hand, and selection on the development rows."""

import math

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("scipy")

from benchmarks.baselines import K1, B, Search, best, surroundings

WORDS = {"analyzer": "word", "token_pattern": r"\S+"}
TEXTS = ["비가 비가 와요", "배가 고파요", "비가 그쳐요 이제 나가요"]


def bm25(query: str, text: str) -> float:
    """Robertson and Zaragoza (2009), equation 3.15, one word at a time."""
    mean = sum(len(t.split()) for t in TEXTS) / len(TEXTS)
    total = 0.0
    for word in query.split():
        n = sum(word in t.split() for t in TEXTS)
        if n:
            tf, length = text.split().count(word), len(text.split())
            idf = math.log(1 + (len(TEXTS) - n + 0.5) / (n + 0.5))
            total += idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * length / mean))
    return total


@pytest.mark.parametrize("query", ["비가 와요", "이제 비가", "배가", "비가", "고파요 나가요"])
def test_bm25_by_hand(query: str) -> None:
    scores = [bm25(query, text) for text in TEXTS]
    assert Search(TEXTS, WORDS).nearest([query]) == [scores.index(max(scores))]
    weights = Search(TEXTS, WORDS)._weights
    found = Search(TEXTS, WORDS)._counter.transform([query]) @ weights.T
    assert found.toarray()[0].tolist() == pytest.approx(scores)


def test_a_query_of_unknown_words_returns_the_first_text() -> None:
    assert Search(TEXTS, WORDS).nearest(["모르는 말"]) == [0]


def test_only_the_selected_method_is_tested() -> None:
    queries = []

    def way(dev: float, name: str) -> tuple[float, str, object]:
        return dev, name, lambda: queries.append(name) or {"accuracy": dev}

    found = best("TF-IDF", [iter([way(0.5, "a"), way(0.7, "b")]), iter([way(0.7, "c")])])
    assert (found.chosen, found.dev, found.test) == ("b", 0.7, {"accuracy": 0.7})
    assert queries == ["b"]


def test_character_context_features() -> None:
    found = surroundings(("가나다", 1))
    assert {"0 나", "-1 가", "1 다", "-2 ^", "2 $", "-1 가나다"} <= set(found)
    assert len(found) == 7 + 6 + 5  # one, two and three of seven characters
    assert surroundings(("가나다", 1)) != surroundings(("가나다", 2))
