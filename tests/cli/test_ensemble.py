"""`--with`: predictions and scores of ensembles."""

from pathlib import Path

import pytest

import jumok
from benchmarks.trust.fuzz_corpus import write_run
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.evaluate import evaluate, evaluation_tables
from tests.cli.commands import call, sibling

Capture = pytest.CaptureFixture[str]
TEXTS = ["삼 일 오", "", "구 영"]


@pytest.fixture(scope="module")
def other_run(
    reading_recipe: Path, reading_run: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A run with the vocabulary of `reading_run`, begun from another seed."""
    arguments = ["seed=1", "training.steps=20", "training.evaluate_every=10"]
    return sibling(
        reading_recipe, reading_run, tmp_path_factory.mktemp("other") / "run", *arguments
    )


def together(*runs: Path) -> Pipeline:
    first, *others = map(jumok.load, runs)
    return first.ensemble(others)


def scores_of(capsys: Capture, run: Path, *arguments: object) -> list[float]:
    """The log-probabilities of what is written for the texts."""
    rows = call(capsys, "predict", run, *TEXTS, "--json", *arguments).rows
    return [row["score"] for row in rows]


@pytest.mark.parametrize("location", [".", "checkpoints/step-10", "checkpoints/step-20"])
def test_two_runs_predict_together(
    capsys: Capture, reading_run: Path, other_run: Path, location: str
) -> None:
    """A finished run, or one as it was after some steps."""
    other = other_run / location
    done = call(capsys, "predict", reading_run, *TEXTS, "--with", other, "--json")
    assert (done.code, done.err) == (0, f"decoding max_length=24; with '{other}'\n")
    for row, answer in zip(done.rows, together(reading_run, other)(TEXTS), strict=True):
        assert isinstance(answer, jumok.GeneratedText)
        assert (row["text"], row["output"]) == (answer.text, answer.output)
        assert row["score"] == pytest.approx(answer.score, abs=1e-6)
    mixed = [row["score"] for row in done.rows]
    assert mixed != pytest.approx(scores_of(capsys, reading_run), abs=1e-3)
    assert mixed != pytest.approx(scores_of(capsys, other), abs=1e-3)
    lines = call(capsys, "predict", reading_run, *TEXTS, "--with", other).out.splitlines()
    assert lines == [row["output"] for row in done.rows]
    streamed = call(capsys, "predict", reading_run, *TEXTS, "--with", other, "--stream")
    assert streamed.out.splitlines() == lines


@pytest.mark.slow
@pytest.mark.parametrize("location", [".", "checkpoints/step-10", "checkpoints/step-20"])
def test_two_runs_are_scored_as_one(
    capsys: Capture, reading_run: Path, other_run: Path, location: str
) -> None:
    other = other_run / location
    done = call(capsys, "evaluate", reading_run, "--with", other, "--json")
    (scores,) = done.rows
    loaded = together(reading_run, other)
    (table,) = evaluation_tables(loaded.recipe).values()
    assert scores == evaluate(loaded, table, "test").scores | {"with": [str(other)]}
    assert done.err == f"decoding max_length=24; with '{other}'\n"
    (alone,) = call(capsys, "evaluate", reading_run, "--json").rows
    assert scores["chrf"] != alone["chrf"]
    shown = call(capsys, "evaluate", reading_run, "--with", other).out.splitlines()
    assert shown[-1].split(maxsplit=1) == ["with", str(other)]


def test_ensemble_and_precision_are_reported(
    capsys: Capture, reading_run: Path, other_run: Path
) -> None:
    """Or two results would look alike that are not of the same thing."""
    arguments = ("--with", other_run, "--precision", "bfloat16")
    done = call(capsys, "evaluate", reading_run, *arguments, "--json")
    (scores,) = done.rows
    assert list(scores)[-4:] == ["decoding", "kernel", "with", "precision"]
    assert (scores["with"], scores["precision"]) == ([str(other_run)], "bfloat16")
    assert done.err == f"decoding max_length=24; with '{other_run}'; encoder in bfloat16\n"
    done = call(capsys, "predict", reading_run, "삼", *arguments)
    assert done.err == f"decoding max_length=24; with '{other_run}'; encoder in bfloat16\n"


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_invalid_ensembles(
    capsys: Capture, reading_run: Path, review_run: Path, tmp_path: Path, command: str
) -> None:
    stranger = write_run(tmp_path / "stranger", "sequence_to_sequence")
    texts = ["삼"] if command == "predict" else []
    for run, other, sentence in (
        (
            reading_run,
            stranger,
            "must have the same vocabulary; train one with vocabulary.file naming",
        ),
        (
            reading_run,
            review_run,
            "of a task that generates text (sequence_to_sequence, ",
        ),
        (
            review_run,
            reading_run,
            "of a task that generates text (sequence_to_sequence, ",
        ),
        (reading_run, tmp_path, "must be a run"),
    ):
        done = call(capsys, command, run, *texts, "--with", other)
        assert (done.code, done.out) == (2, "")
        assert sentence in done.err


def test_ensembles_of_language_models(capsys: Capture, tmp_path: Path) -> None:
    runs = [write_run(tmp_path / str(seed), "language_modeling", seed=seed) for seed in (0, 1)]
    arguments = ("--decoding", "max_length=6", "--json")
    done = call(capsys, "predict", runs[0], "이 영화", "--with", runs[1], *arguments)
    (answer,) = together(*runs).with_decoding(["max_length=6"])(["이 영화"])
    assert isinstance(answer, jumok.GeneratedText)
    assert done.rows[0]["score"] == pytest.approx(answer.score, abs=1e-6)
    own = tmp_path / "own.tsv"
    own.write_text("text\n이 영화 정말 재미있어요\n", encoding="utf-8")
    assert call(capsys, "evaluate", runs[0], "--data", own, "--json").code == 0
    done = call(capsys, "evaluate", runs[0], "--data", own, "--with", runs[1])
    assert (done.code, done.out) == (2, "")
    assert "perplexity needs a single language model, got an ensemble of 2" in done.err
