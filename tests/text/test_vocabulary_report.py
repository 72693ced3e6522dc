"""The report's figures, counted by hand and on real reviews."""

import unicodedata

import pytest

from jumok.text import SentencePieceTokenizer, VocabularyConfig
from jumok.text.vocabulary_report import measure_vocabulary
from tests.shared_data import shared_data
from tests.text.sample_texts import SENTENCES, kowiki_like, trained


def test_counts_of_a_small_text() -> None:
    vocabulary = trained()
    found = measure_vocabulary(vocabulary, ["영화 영화", "뷁뷁 영화"])
    assert (found.size, found.kind, found.normalization) == (200, "unigram", "nfc")
    assert (found.texts, found.characters, found.eojeols) == (2, 10, 4)
    assert found.tokens == 2 + 3  # ▁영화 ▁영화 · ▁ [UNK] ▁영화
    assert (found.unknown_tokens, found.missing) == (1, (("뷁뷁", 1),))
    assert found.unknown_rate == pytest.approx(1 / 5)
    assert found.tokens_per_character == pytest.approx(5 / 10)
    assert found.tokens_per_eojeol == pytest.approx(5 / 4)
    (loss,) = found.losses
    assert (loss.text, loss.decoded) == ("뷁뷁 영화", " 영화")
    assert (loss.expected, loss.got) == ("뷁뷁", "")
    assert found.lost_texts == 1


def test_nfd_is_composed_without_loss() -> None:
    found = measure_vocabulary(trained(), [unicodedata.normalize("NFD", SENTENCES[0])])
    assert (found.recomposed_texts, found.lost_texts) == (1, 0)


def test_characters_that_another_rule_changes_are_shown() -> None:
    vocabulary = SentencePieceTokenizer(kowiki_like())
    found = measure_vocabulary(vocabulary, ["영화 ㅋㅋ", "영화  영화"], examples=2)
    assert [(loss.expected, loss.got) for loss in found.losses] == [("ㅋㅋ", "ᄏᄏ"), (" ", "")]


def test_examples_are_limited_and_no_text_is_accepted() -> None:
    assert measure_vocabulary(trained(), ["뷁"] * 9, examples=2).lost_texts == 9
    assert len(measure_vocabulary(trained(), ["뷁"] * 9, examples=2).losses) == 2
    empty = measure_vocabulary(trained(), [])
    assert (empty.unknown_rate, empty.tokens_per_character, empty.tokens_per_eojeol) == (0, 0, 0)


def test_real_reviews_round_trip_with_byte_fallback() -> None:
    lines = shared_data("nsmc/mini-train.tsv").read_text(encoding="utf-8").splitlines()[1:]
    texts = [line.split("\t")[1] for line in lines]
    config = VocabularyConfig("bpe", size=3000, byte_fallback=True)
    found = measure_vocabulary(SentencePieceTokenizer.train(texts, config), texts)
    assert (found.texts, found.unknown_tokens, found.lost_texts) == (2000, 0, 0)
    assert 0.4 < found.tokens_per_character < 0.9
