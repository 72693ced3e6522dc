"""Texts that are too long: cut where the model ends, told once, or read in windows."""

import logging
from pathlib import Path

import pytest

import jumok
from benchmarks.trust.fuzz_seeds import write_run
from jumok.tasks.inputs import special_tokens as frames

LONG = "이 영화 정말 재미있어요 " * 60


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What is told, as if by a process that has told nothing yet."""
    frames._warn_once.cache_clear()
    caplog.set_level(logging.WARNING)
    return caplog


@pytest.mark.parametrize("task", ["classification", "sequence_to_sequence"])
def test_the_beginning_is_read_and_that_is_told_once(
    tmp_path: Path, told: pytest.LogCaptureFixture, task: str
) -> None:
    loaded = jumok.load(write_run(tmp_path / "run", task), device="cpu")
    loaded("이 영화")
    assert not told.messages
    first, second = loaded([LONG + "최고예요", LONG + "별로예요 ㅠㅠ"])
    if isinstance(first, jumok.Prediction) and isinstance(second, jumok.Prediction):
        assert first.probabilities == second.probabilities
    else:
        assert isinstance(first, jumok.GeneratedText)
        assert isinstance(second, jumok.GeneratedText)
        assert first.output == second.output
    loaded([LONG])
    assert told.messages == [
        "a text is longer than the 16 tokens the model reads, frame included: of such texts the "
        "beginning is read, the rest is not"
    ]


def test_as_long_as_the_model_is_not_too_long(
    tmp_path: Path, told: pytest.LogCaptureFixture
) -> None:
    loaded = jumok.load(write_run(tmp_path / "run"), device="cpu")
    words = "이"
    while len(loaded.vocabulary.encode(f"{words} 이")) <= 15:
        words += " 이"
    loaded(words)
    assert not told.messages
    loaded(f"{words} 이")
    assert len(told.messages) == 1


def test_a_language_model_reads_the_end_of_what_it_goes_on_with(
    tmp_path: Path, told: pytest.LogCaptureFixture
) -> None:
    loaded = jumok.load(write_run(tmp_path / "run", "language_modeling"), device="cpu")
    loaded = loaded.with_decoding(["max_length=3"])
    answer = loaded(LONG)
    assert isinstance(answer, jumok.GeneratedText)
    assert answer.text == LONG
    assert not told.messages  # nothing is cut: the window slides


def test_a_trace_shows_what_was_read(tmp_path: Path, told: pytest.LogCaptureFixture) -> None:
    loaded = jumok.load(write_run(tmp_path / "run"), device="cpu")
    tokens = jumok.trace(loaded, LONG).info.tokens("source")
    assert len(tokens) == 16
    assert tokens.text == LONG
    assert len(told.messages) == 1
