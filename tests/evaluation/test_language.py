"""Perplexity and bits per byte of models whose cost is known."""

import math

import pytest

from jumok.evaluation import score_language, utf8_bytes


def test_a_model_that_knows_nothing() -> None:
    """Every token one of 1,000: the perplexity is 1,000, whatever the text."""
    scores = score_language(nats=50 * math.log(1000), tokens=50, n_bytes=120)
    assert scores.perplexity == pytest.approx(1000)
    assert scores.bits_per_byte == pytest.approx(50 * math.log2(1000) / 120)


def test_bytes_alone_cost_8_bits() -> None:
    text = "가나 a"
    assert utf8_bytes([text]) == 3 + 3 + 1 + 1
    scores = score_language(nats=utf8_bytes([text]) * math.log(256), tokens=8, n_bytes=8)
    assert scores.bits_per_byte == pytest.approx(8.0)


def test_bits_per_byte_does_not_depend_on_the_cut() -> None:
    """The same cost over 10 pieces or over 30 letters."""
    pieces, letters = (score_language(60.0, tokens, 30) for tokens in (10, 30))
    assert pieces.bits_per_byte == letters.bits_per_byte
    assert pieces.perplexity == pytest.approx(letters.perplexity**3)


def test_the_ends() -> None:
    assert score_language(0.0, 5, 5).perplexity == 1.0
    assert score_language(1e6, 1, 5).perplexity == math.inf
    assert utf8_bytes([]) == 0
    with pytest.raises(ValueError, match="0 tokens of 5 bytes; there is nothing to score"):
        score_language(0.0, 0, 5)
