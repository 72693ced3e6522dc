"""Texts that are too long: truncated with one warning, or read in windows."""

import logging
from pathlib import Path

import pytest

import jumok
from benchmarks.trust.fuzz_corpus import write_run
from jumok.tasks.inputs import special_tokens

LONG = "이 영화 정말 재미있어요 " * 60


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The warnings of a process that has not warned before."""
    special_tokens._warn_truncated.cache_clear()
    caplog.set_level(logging.WARNING)
    return caplog


@pytest.mark.parametrize("task", ["classification", "sequence_to_sequence"])
def test_long_texts_are_truncated_with_one_warning(
    tmp_path: Path, warnings: pytest.LogCaptureFixture, task: str
) -> None:
    loaded = jumok.load(write_run(tmp_path / "run", task), device="cpu")
    loaded("이 영화")
    assert not warnings.messages
    first, second = loaded([LONG + "최고예요", LONG + "별로예요 ㅠㅠ"])
    if isinstance(first, jumok.Prediction) and isinstance(second, jumok.Prediction):
        assert first.probabilities == second.probabilities
    else:
        assert isinstance(first, jumok.GeneratedText)
        assert isinstance(second, jumok.GeneratedText)
        assert first.output == second.output
    loaded([LONG])
    assert warnings.messages == [
        "a text is longer than 16 tokens, special tokens included; such texts are truncated on the "
        "right"
    ]


def test_a_text_of_max_length_is_not_truncated(
    tmp_path: Path, warnings: pytest.LogCaptureFixture
) -> None:
    loaded = jumok.load(write_run(tmp_path / "run"), device="cpu")
    words = "이"
    while len(loaded.vocabulary.encode(f"{words} 이")) <= 15:
        words += " 이"
    loaded(words)
    assert not warnings.messages
    loaded(f"{words} 이")
    assert len(warnings.messages) == 1


def test_a_language_model_reads_the_end_of_a_long_prompt(
    tmp_path: Path, warnings: pytest.LogCaptureFixture
) -> None:
    loaded = jumok.load(write_run(tmp_path / "run", "language_modeling"), device="cpu")
    loaded = loaded.with_decoding(["max_length=3"])
    answer = loaded(LONG)
    assert isinstance(answer, jumok.GeneratedText)
    assert answer.text == LONG
    assert not warnings.messages  # not truncated: the window slides


def test_a_trace_has_the_truncated_tokens(
    tmp_path: Path, warnings: pytest.LogCaptureFixture
) -> None:
    loaded = jumok.load(write_run(tmp_path / "run"), device="cpu")
    tokens = jumok.trace(loaded, LONG).info.tokens("source")
    assert len(tokens) == 16
    assert tokens.text == LONG
    assert len(warnings.messages) == 1
