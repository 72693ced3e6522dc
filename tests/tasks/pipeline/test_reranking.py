"""Search results in the order of a cross-encoder: scores, ties, other models, and the command."""

import json
from pathlib import Path

import pytest

import jumok
from jumok.engine import load
from jumok.errors import InputError
from jumok.tasks.pipeline.reranking import check_reranker, reranked
from jumok.tasks.pipeline.vector_index import Match
from tests.cli.commands import call
from tests.engine.test_engine import save_run
from tests.errors import raises

PAIRS = {"n_segments": 2, "positions": "learned", "pooling": "first"}
TEXTS = ["이 영화 최고예요", "음악이 별로예요", "연기가\t좋았어요", "이 영화 최고예요"]


@pytest.fixture
def reranker(tmp_path: Path) -> Path:
    """A cross-encoder with random weights."""
    return save_run(tmp_path / "run", "regression", PAIRS, ())


def test_matches_are_ordered_by_the_score_of_the_pair(reranker: Path) -> None:
    model = jumok.load(reranker, device="cpu")
    matches = [Match(i, 0.5, text) for i, text in enumerate(TEXTS, 1)]
    found = reranked(model, "연기가", matches)
    scores = {
        text: output.score  # type: ignore[union-attr]
        for text, output in zip(
            TEXTS,
            model.predict([f"연기가\t{text.replace(chr(9), ' ')}" for text in TEXTS]),
            strict=True,
        )
    }
    assert [match.text for match in found] == sorted(TEXTS, key=lambda text: -scores[text])
    assert [match.score for match in found] == [round(scores[match.text], 4) for match in found]
    same = [match.line for match in found if match.text == TEXTS[0]]
    assert same == [1, 4]  # equal scores in the order of the search
    assert reranked(model, "연기가", []) == []


def test_other_models_are_refused(tmp_path: Path) -> None:
    folder = save_run(tmp_path / "run", "classification", PAIRS, ("같음", "다름"))
    for name in (folder, "note", "ko-small"):
        with raises(InputError, "search.no_reranker"):
            check_reranker(name, jumok.load(name, device="cpu"))


def test_the_command(reranker: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("\n".join([TEXTS[0], TEXTS[1], "감동이에요"]) + "\n", encoding="utf-8")
    command = ("search", "ko-small-vectors", path, "영화가 최고", "--json", "--top", "2")
    out = call(capsys, *command, "--rerank", reranker).out
    found = [json.loads(line) for line in out.splitlines()]
    texts = path.read_text(encoding="utf-8").splitlines()
    scores = [
        each.score for each in load(reranker).predict([("영화가 최고", text) for text in texts])
    ]
    best = sorted(range(3), key=lambda i: -scores[i])[:2]
    assert [row["line"] for row in found] == [i + 1 for i in best]
    assert [row["score"] for row in found] == pytest.approx([scores[i] for i in best], abs=1e-4)
    assert [row["rank"] for row in found] == [1, 2]
