"""Search by BM25 and vectors: each method, ties, blank lines, and the command."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from jumok.engine import load
from jumok.errors import InputError
from jumok.tasks.pipeline.hybrid_search import HybridIndex, fused
from jumok.tasks.pipeline.vector_index import VectorIndex
from tests.cli.commands import call
from tests.errors import raises

TEXTS = ["고양이가 운다", "", "강아지가 짖는다", "강아지가 짖는다", "비가 온다"]
VECTORS = np.array([[1, 0], [1, 0], [0, 1], [0, 1], [0.6, 0.8]], np.float32)
QUERY = np.array([1, 0], np.float32)


def lines(method: str, text: str = "강아지는") -> list[int]:
    """The lines that a method finds for a query near to the first line."""
    found = HybridIndex(VectorIndex(TEXTS, VECTORS)).search(text, QUERY, 10, method)  # type: ignore[arg-type]
    assert all(a.score >= b.score for a, b in pairwise(found))
    return [match.line for match in found]


def test_each_method() -> None:
    assert lines("vectors") == [1, 5, 3, 4]
    assert lines("bm25") == [3, 4]  # the others share no bigram
    assert lines("hybrid") == [1, 3, 4, 5]  # 0.30 of the words, and a cosine of 0
    assert lines("hybrid", "없는 말") == [1, 5, 3, 4]  # of the vectors alone
    assert lines("bm25", "없는 말") == []


def test_the_hybrid_score_is_the_sum_of_reciprocal_ranks_by_coverage() -> None:
    vectors, bm25 = np.array([0.9, 0.1, 0.5]), np.array([-np.inf, 2.0, 1.0])
    coverage = np.array([0.0, 1.0, 0.5])
    expected = [1 / 6, 1 / 8 + 1 / 6, 1 / 7 + 0.5 / 7]
    np.testing.assert_allclose(fused(vectors, bm25, coverage), expected)  # type: ignore[arg-type]


def test_an_ending_that_two_lines_share_does_not_outweigh_the_vectors() -> None:
    """Of few lines one is the first by BM25 with any bigram; its rank counted in full before."""
    texts = ["강아지", "고양이가 웁니다"]
    vectors = np.array([[1, 0], [0, 1]], np.float32)
    query = np.array([0.8, 0.6], np.float32)
    index = HybridIndex(VectorIndex(texts, vectors))
    assert [match.line for match in index.search("멍멍이는 짖습니다", query)] == [1, 2]
    assert index.search("고양이가 운다", query)[0].line == 2  # most of its words


def test_an_unknown_method_is_refused() -> None:
    with raises(InputError, "config.wrong_type"):
        lines("BM25")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("비가 온다\n눈이 온다\n주문 번호 A-1047 환불\n", encoding="utf-8")
    query = "A-1047은 어떻게 됐나요?"
    for method in ((), ("--method", "hybrid"), ("--method", "bm25"), ("--method", "vectors")):
        out = call(capsys, "search", "ko-small-vectors", path, query, "--json", *method).out
        found = [json.loads(line) for line in out.splitlines()]
        assert found[0]["line"] == 3
        assert len(found) == (1 if "bm25" in method else 3)
    model = load("ko-small-vectors", "int8")
    cosine = float(model.encode(query) @ model.encode("주문 번호 A-1047 환불"))
    assert found[0]["score"] == pytest.approx(cosine, abs=2e-4)


def test_an_empty_query_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("비가 온다\n", encoding="utf-8")
    done = call(capsys, "search", "ko-static", path, " ")
    assert done.code == 2
    assert "empty" in done.err
