"""Perplexity and bits a byte, from the sum of -log p."""

import math

import pytest

from jumok.evaluation.language_models import LanguageModelMetrics


def test_a_uniform_model_has_the_perplexity_of_its_vocabulary() -> None:
    text = "가나다"  # 9 bytes; three pieces and the end, each out of 16
    scores = LanguageModelMetrics(1, tokens=4, bytes=len(text.encode()), nll_nats=4 * math.log(16))
    assert scores.loss == pytest.approx(math.log(16))
    assert scores.perplexity == pytest.approx(16)
    assert scores.bits_per_byte == pytest.approx(4 * 4 / 9)


def test_bits_per_byte_do_not_depend_on_the_segmentation() -> None:
    coarse = LanguageModelMetrics(1, tokens=2, bytes=12, nll_nats=10.0)
    fine = LanguageModelMetrics(1, tokens=12, bytes=12, nll_nats=10.0)
    assert coarse.bits_per_byte == fine.bits_per_byte
    assert coarse.perplexity > fine.perplexity


def test_an_empty_text() -> None:
    scores = LanguageModelMetrics(0, tokens=0, bytes=0, nll_nats=0.0)
    assert (scores.perplexity, scores.bits_per_byte) == (1.0, 0.0)


def test_a_huge_loss_has_a_finite_perplexity() -> None:
    assert math.isfinite(LanguageModelMetrics(1, tokens=1, bytes=1, nll_nats=1e6).perplexity)
