"""`--precision`: predictions and vectors with an optimized encoder."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.trust.fuzz_corpus import write_run
from jumok.data.arrow_cache import cache_folder
from tests.cli.commands import call

Capture = pytest.CaptureFixture[str]
TEXTS = ("이 영화 정말 재미있어요", "지루하고 돈이 아까웠다", "")


def shares(capsys: Capture, run: Path, *arguments: str) -> list[dict[str, float]]:
    """How sure the run is of each label, for each text."""
    done = call(capsys, "predict", run, *TEXTS, "--json", *arguments)
    assert done.code == 0  # without a compiler int8 prints to stderr that it is slower
    assert [row["text"] for row in done.rows] == list(TEXTS)
    return [row["probabilities"] for row in done.rows]


@pytest.mark.parametrize(
    ("precision", "least", "most"),
    [("float32", 0.0, 1e-5), ("bfloat16", 1e-7, 0.05), ("int8", 1e-7, 0.05)],
)
def test_answers_are_as_near_as_their_numbers(
    capsys: Capture, review_run: Path, precision: str, least: float, most: float
) -> None:
    plain = shares(capsys, review_run)
    fast = shares(capsys, review_run, "--precision", precision)
    apart = max(abs(a[k] - b[k]) for a, b in zip(plain, fast, strict=True) for k in a)
    assert least <= apart <= most


def test_the_change_in_scores_is_measured(capsys: Capture, review_run: Path) -> None:
    plain, fast = (
        call(capsys, "evaluate", review_run, "--json", *arguments)
        for arguments in ((), ("--precision", "int8"))
    )
    scores = [plain.rows[0], fast.rows[0]]
    assert [*scores[0], "precision"] == list(scores[1])
    assert scores[1]["precision"] == "int8"
    assert plain.err == ""
    assert fast.err.splitlines()[-1] == "encoder in int8"
    assert scores[1]["accuracy"] == pytest.approx(scores[0]["accuracy"], abs=0.1)
    assert scores[1]["calibration_error"] != scores[0]["calibration_error"]


def test_an_encoder_decoder_with_an_optimized_encoder(capsys: Capture, reading_run: Path) -> None:
    plain, fast = (
        call(capsys, "predict", reading_run, "일곱 시", "--json", *arguments).rows[0]
        for arguments in ((), ("--precision", "float32"))
    )
    assert fast["output"] == plain["output"]
    assert fast["score"] == pytest.approx(plain["score"], abs=1e-4)


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(TEXTS[:2]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_search(capsys: Capture, review_run: Path, corpus: Path, precision: str) -> None:
    where = (review_run, corpus, TEXTS[1], "--method", "vectors")
    plain, fast, cached = (
        call(capsys, "search", *where, "--json", *arguments)
        for arguments in ((), ("--precision", precision), ("--precision", precision))
    )
    assert fast.code == 0, fast.err
    assert fast.err.splitlines()[-1] == f"encoder in {precision}"
    assert cached.rows == fast.rows
    for a, b in zip(plain.rows, fast.rows, strict=True):
        assert (a["line"], a["text"]) == (b["line"], b["text"])
        assert a["score"] == pytest.approx(b["score"], abs=0.05)
    assert fast.rows[0]["score"] == pytest.approx(1, abs=1e-3)  # the text itself, in one precision
    assert len(list(cache_folder("vectors").iterdir())) == 2


def test_embed(
    capsys: Capture, review_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for arguments in ((), ("--precision", "int8")):
        stdin = io.TextIOWrapper(io.BytesIO("\n".join(TEXTS).encode()))
        monkeypatch.setattr(sys, "stdin", stdin)
        done = call(capsys, "embed", review_run, "--out", tmp_path / "a.npy", *arguments)
        assert done.code == 0, done.err
        assert ("encoder in int8" in done.err) == bool(arguments)
        found.append(np.load(tmp_path / "a.npy", allow_pickle=False))
    assert 1e-5 < np.abs(found[1] - found[0]).max() < 0.05


@pytest.mark.parametrize("command", [("search", "corpus.txt", "글"), ("embed",)])
def test_vectors_need_an_encoder(capsys: Capture, tmp_path: Path, command: tuple[str, ...]) -> None:
    run = write_run(tmp_path / "run", "language_modeling")
    done = call(capsys, command[0], run, *command[1:], "--precision", "int8")
    assert done.code == 2
    assert done.err.startswith("jumok: vectors of texts need an encoder, got LanguageModel; ")


@pytest.mark.parametrize("command", ["predict", "evaluate", "embed", "search"])
def test_another_type(capsys: Capture, review_run: Path, command: str) -> None:
    texts = ("corpus.txt", "글") if command == "search" else ()
    done = call(capsys, command, review_run, *texts, "--precision", "int4")
    assert done.code == 2
    known = "'float32', 'bfloat16', 'int8'"
    assert done.err == f"jumok: precision must be one of {known}, got 'int4'\n"


def test_a_model_without_an_encoder(capsys: Capture, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "language_modeling")
    done = call(capsys, "predict", run, "글", "--precision", "int8")
    assert done.code == 2
    assert done.err == (
        "jumok: --precision needs a model with an encoder, got a language model; use "
        "--decoding precision=int8\n"
    )
    done = call(capsys, "predict", run, "글", "--decoding", "precision=int8", "--json")
    assert done.code == 0
    assert "precision='int8'" in done.err
    assert done.rows[0]["text"] == "글"
