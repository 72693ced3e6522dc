"""`jumok predict` with --tokens, --alignment, --n-best and --draft."""

from pathlib import Path

import pytest
import torch

import jumok
from benchmarks.trust.fuzz_corpus import write_run
from jumok.errors import InputError
from jumok.tasks.pipeline.generation import align_output
from tests.cli.commands import call, sibling
from tests.errors import raises

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


def test_the_tokens_are_those_of_teacher_forcing(reading_run: Path) -> None:
    loaded = jumok.load(reading_run)
    answer = loaded("삼 일 오")
    assert isinstance(answer, jumok.GeneratedText)
    source = torch.tensor([[*loaded.vocabulary.encode("삼 일 오"), loaded.vocabulary.eos_id]])
    ids = [token.id for token in answer.tokens]
    given = torch.tensor([[loaded.vocabulary.bos_id, *ids[:-1]]])
    log_p = loaded.logits(source, decoder_input_ids=given).log_softmax(-1)[0]  # (T, V)
    for location, token in enumerate(answer.tokens):
        assert token.log_probability == pytest.approx(float(log_p[location, token.id]), abs=1e-4)


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


def test_n_best_lists_the_outputs_in_order(capsys: Capture, reading_run: Path) -> None:
    words = ("--n-best", 2, "--json", "--tokens", "--alignment")
    (row,) = call(capsys, "predict", reading_run, "삼 일", *words).rows
    assert sum(token["log_probability"] for token in row["tokens"]) == pytest.approx(row["score"])
    assert len(row["n_best"]) == 2


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


def test_a_draft_under_constraints(capsys: Capture, reading_run: Path, draft_run: Path) -> None:
    words = ("--decoding", 'choices=["1 2 3", "4 5"]', "--decoding", "no_repeat_ngram=3")
    alone = call(capsys, "predict", reading_run, *TEXTS, *words)
    assert alone.code == 0, alone.err
    assert (
        call(capsys, "predict", reading_run, *TEXTS, *words, "--draft", draft_run).out == alone.out
    )


def test_a_draft_of_a_language_model(capsys: Capture, tmp_path: Path) -> None:
    """One text fits the window with all that follows, for the others nothing is guessed."""
    run = write_run(tmp_path / "run", "language_modeling")
    small = write_run(tmp_path / "small", "language_modeling", seed=1, words=["model.d_ff=4"])
    words = ("--decoding", "max_length=8", "--json")
    texts = ["이", "이 영화", "이 영화 정말 재미있어요 결말이 너무 지루해요"]
    alone = call(capsys, "predict", run, *texts, *words)
    helped = call(capsys, "predict", run, *texts, *words, "--draft", small)
    assert [row["output"] for row in helped.rows] == [row["output"] for row in alone.rows]
    assert " of 0 draft tokens" not in helped.err


def test_invalid_drafts(
    capsys: Capture, reading_run: Path, review_run: Path, tmp_path: Path
) -> None:
    other = write_run(tmp_path / "other", "sequence_to_sequence")
    short = write_run(tmp_path / "short", "sequence_to_sequence", words=["model.max_length=8"])
    for run, draft, words, sentence in (
        (reading_run, review_run, (), "a draft must be of the same task"),
        (review_run, reading_run, (), "a draft must be of the same task"),
        (
            reading_run,
            other,
            (),
            "must have the same vocabulary; train one with vocabulary.file naming",
        ),
        (other, short, (), "model.max_length of the draft reviews must be at least 16"),
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


def test_an_alignment_needs_a_source(tmp_path: Path) -> None:
    loaded = jumok.load(write_run(tmp_path / "run", "language_modeling"))
    answer = loaded.with_decoding(["max_length=2"])("이")
    assert isinstance(answer, jumok.GeneratedText)
    with raises(InputError, "pipeline.no_alignments"):
        align_output(loaded, answer)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("beam", [1, 3])
def test_the_kernel_keeps_the_alignment_while_it_decodes(
    capsys: Capture, reading_run: Path, beam: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ("삼 일 오", "이 구", "팔 칠 육 오 사")
    options = ("--json", "--tokens", "--alignment", "--decoding", f"beam={beam}")
    plain = call(capsys, "predict", reading_run, *texts, *options, "--decoding", "kernel=torch")

    def second_pass(*_: object, **__: object) -> None:
        raise AssertionError("the outputs are read a second time")

    monkeypatch.setattr("jumok.tasks.pipeline.generation.align", second_pass)
    native = call(capsys, "predict", reading_run, *texts, *options, "--decoding", "kernel=native")
    assert native.code == 0, native.err
    for a, b in zip(plain.rows, native.rows, strict=True):
        assert (a["output"], a["source"]) == (b["output"], b["source"])
        for one, other in zip(a["alignment"], b["alignment"], strict=True):
            assert one == pytest.approx(other, abs=2e-5)  # other orders of summation, 6 decimals


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
