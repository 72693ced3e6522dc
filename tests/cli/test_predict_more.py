"""`jumok predict` with --tokens, --alignment, --n-best and --draft."""

from pathlib import Path

import pytest

import jumok
from benchmarks.trust.fuzz_corpus import write_run
from tests.cli.commands import call, sibling

Capture = pytest.CaptureFixture[str]
TEXTS = ["삼 일 오", "", "구 영", "이 이 이 이 이 이"]


@pytest.fixture(scope="module")
def draft_run(
    reading_recipe: Path, reading_run: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A narrower run with the vocabulary of `reading_run`, trained for a moment."""
    words = ["model.d_model=16", "training.steps=20", "training.evaluate_every=20"]
    return sibling(reading_recipe, reading_run, tmp_path_factory.mktemp("draft") / "run", *words)


def test_the_log_probability_of_each_token(capsys: Capture, reading_run: Path) -> None:
    rows = call(capsys, "predict", reading_run, *TEXTS, "--json", "--tokens").rows
    vocabulary = jumok.load(reading_run).vocabulary
    for text, row in zip(TEXTS, rows, strict=True):
        keys = [key for key in row if key not in ("loop", "warnings")]
        assert keys == ["text", "output", "score", "tokens"]
        assert row["text"] == text
        assert all(list(token) == ["piece", "id", "log_probability"] for token in row["tokens"])
        assert sum(t["log_probability"] for t in row["tokens"]) == pytest.approx(row["score"])
        assert vocabulary.decode([token["id"] for token in row["tokens"]]) == row["output"]
        assert [vocabulary.piece(t["id"]) for t in row["tokens"]] == [
            t["piece"] for t in row["tokens"]
        ]
    whole = call(capsys, "predict", reading_run, *TEXTS, "--json").rows
    assert [{k: v for k, v in row.items() if k != "tokens"} for row in rows] == whole


def test_what_each_token_looked_at(capsys: Capture, reading_run: Path) -> None:
    (row,) = call(
        capsys, "predict", reading_run, "삼 일 오", "--json", "--tokens", "--alignment"
    ).rows
    assert list(row) == ["text", "output", "score", "tokens", "source", "alignment"]
    assert "".join(row["source"]) == "▁삼▁일▁오[EOS]"
    assert len(row["alignment"]) == len(row["tokens"])
    for weights in row["alignment"]:
        assert len(weights) == len(row["source"])
        assert sum(weights) == pytest.approx(1.0, abs=1e-4)
    assert (
        "tokens" not in call(capsys, "predict", reading_run, "삼", "--json", "--alignment").rows[0]
    )


def test_tokens_and_alignment_need_json_and_generated_text(
    capsys: Capture, reading_run: Path, review_run: Path, tmp_path: Path
) -> None:
    done = call(capsys, "predict", reading_run, "삼", "--tokens")
    assert (done.code, done.out) == (2, "")
    assert "--tokens and --alignment need JSON output; add --json" in done.err
    done = call(capsys, "predict", review_run, "삼", "--alignment", "--json")
    assert done.code == 2
    assert "--alignment needs a model that generates text, got task classification" in done.err
    going_on = write_run(tmp_path / "run", "language_modeling")
    words = ("--decoding", "max_length=3", "--json")
    (row,) = call(capsys, "predict", going_on, "이 영화", *words, "--tokens").rows
    assert len(row["tokens"]) == 3
    done = call(capsys, "predict", going_on, "이 영화", *words, "--alignment")
    assert done.code == 2
    assert "alignments need a run of sequence_to_sequence" in done.err


def test_a_draft_model_does_not_change_the_output(
    capsys: Capture, reading_run: Path, draft_run: Path
) -> None:
    alone = call(capsys, "predict", reading_run, *TEXTS, "--json")
    helped = call(capsys, "predict", reading_run, *TEXTS, "--json", "--draft", draft_run)
    assert [row["output"] for row in helped.rows] == [row["output"] for row in alone.rows]
    for row, expected in zip(helped.rows, alone.rows, strict=True):
        assert row["score"] == pytest.approx(expected["score"], abs=1e-4)
    last_line = helped.err.splitlines()[-1]
    assert last_line.startswith("draft: ")
    assert last_line.endswith("passes of the model")
    itself = call(capsys, "predict", reading_run, *TEXTS, "--draft", reading_run)
    kept, predicted = (int(word) for word in itself.err.splitlines()[-1].split()[1:4:2])
    assert kept == predicted > 0  # it guesses all that it would write
    streamed = call(capsys, "predict", reading_run, *TEXTS, "--draft", draft_run, "--stream")
    assert streamed.out.splitlines() == [row["output"] for row in alone.rows]


def test_invalid_drafts(
    capsys: Capture, reading_run: Path, review_run: Path, tmp_path: Path
) -> None:
    other = write_run(tmp_path / "other", "sequence_to_sequence")
    short = write_run(tmp_path / "short", "sequence_to_sequence", words=["model.max_length=8"])
    for run, draft, words, sentence in (
        (reading_run, review_run, (), "models that generate together must be of one class"),
        (review_run, reading_run, (), "models that generate together must be of one class"),
        (
            reading_run,
            other,
            (),
            "must have the same vocabulary; train one with vocabulary.file naming",
        ),
        (
            other,
            short,
            (),
            "must have the smallest model.max_length, got reviews with 16 and reviews with 8",
        ),
        (
            reading_run,
            reading_run,
            ("--decoding", "beam=2"),
            "needs decoding.beam=1 and n_best=1, got 2 and 1",
        ),
        (reading_run, tmp_path, (), "must be a run"),
    ):
        done = call(capsys, "predict", run, "삼", "--draft", draft, *words)
        assert (done.code, done.out) == (2, "")
        assert sentence in done.err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--chat"], "a chat needs a language model, got task classification"),
        (["--chat", "좋아요"], "--chat answers the messages on stdin, got the text '좋아요' too"),
        (["--template", "nofile", "좋아요"], "--template is the template of a chat, got no --chat"),
        (["--chat", "--n-best", 2], "--n-best and --chat exclude each other"),
    ],
)
def test_chat_needs_its_model_and_its_arguments(
    capsys: Capture, review_run: Path, words: list[object], expected: str
) -> None:
    done = call(capsys, "predict", review_run, *words)
    assert (done.code, done.out) == (2, "")
    assert expected in done.err
