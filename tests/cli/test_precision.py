"""`--precision`: predictions with an optimized encoder."""

from pathlib import Path

import pytest

from benchmarks.trust.fuzz_corpus import write_run
from tests.cli.commands import call

Capture = pytest.CaptureFixture[str]
TEXTS = ("이 영화 정말 재미있어요", "지루하고 돈이 아까웠다", "")


def shares(capsys: Capture, run: Path, *words: str) -> list[dict[str, float]]:
    """How sure the run is of each label, for each text."""
    done = call(capsys, "predict", run, *TEXTS, "--json", *words)
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
        call(capsys, "evaluate", review_run, "--json", *words)
        for words in ((), ("--precision", "int8"))
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
        call(capsys, "predict", reading_run, "일곱 시", "--json", *words).rows[0]
        for words in ((), ("--precision", "float32"))
    )
    assert fast["output"] == plain["output"]
    assert fast["score"] == pytest.approx(plain["score"], abs=1e-4)


@pytest.mark.parametrize("verb", ["predict", "evaluate"])
def test_another_type(capsys: Capture, review_run: Path, verb: str) -> None:
    done = call(capsys, verb, review_run, "--precision", "int4")
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
