"""Exact match by hand; BLEU and chrF as sacrebleu's own functions count them."""

import pytest
import sacrebleu

from jumok.evaluation import exact_match, score_sequences

WRITTEN = ["나는 오늘 아침 일찍 학교에 간다", "오늘은 날씨가 좋다", "3시 15분에 만나요", "무엇"]
WANTED = [
    "나는 오늘 아침 일찍 학교에 갔다",
    "오늘은 날씨가 정말 좋다",
    "3시 15분에 만나요",
    "다른 것",
]


def test_against_sacrebleu() -> None:
    scores = score_sequences(WRITTEN, WANTED)
    assert scores.n == 4
    assert scores.exact_match == 0.25
    assert scores.bleu == pytest.approx(sacrebleu.corpus_bleu(WRITTEN, [WANTED]).score)
    assert scores.chrf == pytest.approx(sacrebleu.corpus_chrf(WRITTEN, [WANTED]).score)
    assert 0 < scores.bleu < scores.chrf < 100


def test_the_signature_says_how_it_was_counted() -> None:
    signature = score_sequences(WRITTEN, WANTED).signature
    for word in ("BLEU", "tok:13a", "chrF", "nc:6", "nw:0", f"version:{sacrebleu.__version__}"):
        assert word in signature


def test_everything_right() -> None:
    scores = score_sequences(WANTED, WANTED)
    assert scores.exact_match == 1.0
    assert scores.bleu == pytest.approx(100.0)
    assert scores.chrf == pytest.approx(100.0)


def test_exact_is_to_the_last_character() -> None:
    assert exact_match(["3시", "3 시", "3시 ", ""], ["3시", "3시", "3시", ""]) == 0.5
    assert exact_match([], []) == 0.0


def test_nothing_to_score() -> None:
    scores = score_sequences([], [])
    assert (scores.n, scores.exact_match, scores.bleu, scores.chrf) == (0, 0.0, 0.0, 0.0)
