"""Exact match by hand; BLEU and chrF as sacrebleu's own functions count them."""

import sys
import unicodedata

import pytest
import sacrebleu

from jumok.errors import InputError
from jumok.evaluation import bleu_tokenizations, exact_match, sequence_metrics, sequences
from jumok.evaluation.sequences import moses_tokens
from tests.errors import raises

WRITTEN = ["나는 오늘 아침 일찍 학교에 간다", "오늘은 날씨가 좋다", "3시 15분에 만나요", "무엇"]
WANTED = [
    "나는 오늘 아침 일찍 학교에 갔다",
    "오늘은 날씨가 정말 좋다",
    "3시 15분에 만나요",
    "다른 것",
]


def test_against_sacrebleu() -> None:
    scores = sequence_metrics(WRITTEN, WANTED)
    assert scores.n == 4
    assert scores.exact_match == 0.25
    assert scores.bleu == pytest.approx(sacrebleu.corpus_bleu(WRITTEN, [WANTED]).score)
    assert scores.chrf == pytest.approx(sacrebleu.corpus_chrf(WRITTEN, [WANTED]).score)
    assert 0 < scores.bleu < scores.chrf < 100


def test_the_signature_describes_the_score() -> None:
    signature = sequence_metrics(WRITTEN, WANTED).signature
    for word in ("BLEU", "tok:13a", "chrF", "nc:6", "nw:0", f"version:{sacrebleu.__version__}"):
        assert word in signature


def test_perfect_outputs() -> None:
    scores = sequence_metrics(WANTED, WANTED)
    assert scores.exact_match == 1.0
    assert scores.bleu == pytest.approx(100.0)
    assert scores.chrf == pytest.approx(100.0)


def test_an_exact_match_compares_every_character() -> None:
    assert exact_match(["3시", "3 시", "3시 ", ""], ["3시", "3시", "3시", ""]) == 0.5
    assert exact_match([], []) == 0.0


def test_decomposed_letters_are_equal() -> None:
    """As files from macOS hold them."""
    written = ["한국어로 쓴다"]
    apart = [unicodedata.normalize("NFD", text) for text in written]
    assert apart != written
    scores = sequence_metrics(written, apart)
    assert (scores.exact_match, round(scores.bleu), round(scores.chrf)) == (1.0, 0, 100)
    assert sequence_metrics(apart, written) == scores


def test_nothing_to_score() -> None:
    scores = sequence_metrics([], [])
    assert (scores.n, scores.exact_match, scores.bleu, scores.chrf) == (0, 0.0, 0.0, 0.0)


def test_over_the_morphemes_of_korean() -> None:
    pytest.importorskip("mecab_ko")
    scores = sequence_metrics(WRITTEN, WANTED, tokenizations=["ko-mecab"])
    reference = sacrebleu.corpus_bleu(WRITTEN, [WANTED], tokenize="ko-mecab")
    found = scores.extra_bleu["ko-mecab"]
    assert found.score == pytest.approx(reference.score)
    assert "tok:ko-mecab" in found.signature
    assert found.score > scores.bleu  # 갔다 and 간다 share a morpheme, and not a word
    assert scores.to_dict()["bleu_ko_mecab"] == found.score
    assert "tok:13a" in scores.signature


GERMAN = ["Ein „großer“ Hund läuft, z.B. über 3,5 km.", 'Er sagt: "Los!"']
TOKENS = [
    "ein &quot; großer &quot; hund läuft , z.b. über 3,5 km .",
    "er sagt : &quot; los ! &quot;",
]


def test_as_multi30k_is_scored_in_papers() -> None:
    pytest.importorskip("sacremoses")
    assert moses_tokens(GERMAN, "de") == TOKENS
    written = ['ein "großer" Hund läuft, z.B. über 3 km .', "Er sagt: los!"]
    scores = sequence_metrics(written, GERMAN, tokenizations=["tokenized-lower"], language="de")
    cut = ["ein &quot; großer &quot; hund läuft , z.b. über 3 km .", "er sagt : los !"]
    reference = sacrebleu.corpus_bleu(cut, [TOKENS], tokenize="none", force=True)
    found = scores.extra_bleu["tokenized-lower"]
    assert found.score == pytest.approx(reference.score)
    assert found.score > scores.bleu
    assert "case:lc" in found.signature
    assert "-de-norm" in found.signature
    assert list(scores.to_dict())[-2:] == [
        "bleu_tokenized_lower",
        "bleu_tokenized_lower_signature",
    ]


def test_only_case_and_punctuation_are_ignored() -> None:
    pytest.importorskip("sacremoses")
    shouted = ['EIN "großer" HUND läuft, z.B. ÜBER 3,5 km.', "ER SAGT: „Los!“"]
    scores = sequence_metrics(shouted, GERMAN, tokenizations=["tokenized-lower"], language="de")
    assert scores.extra_bleu["tokenized-lower"].score == pytest.approx(100.0)
    assert scores.bleu < 50


def test_default_tokenization_of_each_language() -> None:
    pytest.importorskip("mecab_ko")
    pytest.importorskip("sacremoses")
    assert bleu_tokenizations("ko") == ("ko-mecab",)
    assert bleu_tokenizations("de") == bleu_tokenizations("fr") == ("tokenized-lower",)
    assert bleu_tokenizations("ja") == ()


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from sacrebleu.tokenizers import tokenizer_ko_mecab

    monkeypatch.setattr(tokenizer_ko_mecab, "MeCab", None)
    with raises(InputError, "extra.not_installed"):
        sequence_metrics(WRITTEN, WANTED, tokenizations=["ko-mecab"])
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with raises(InputError, "extra.not_installed"):
        sequence_metrics(WRITTEN, WANTED, tokenizations=["tokenized-lower"], language="de")


def test_missing_bleu_over_morphemes_is_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sequences._warn_missing_once.cache_clear()
    monkeypatch.setattr(sequences, "is_installed", lambda name: False)
    assert (
        bleu_tokenizations("ko")
        == bleu_tokenizations("ko")
        == bleu_tokenizations("de")
        == bleu_tokenizations("fr")
        == ()
    )
    assert [record.getMessage() for record in caplog.records] == [
        "BLEU on Korean morphemes is not computed: MeCab-ko is not installed; "
        "install it with pip install 'jumok[korean]'",
        "BLEU of tokenized text is not computed: sacremoses is not installed; "
        "install it with pip install 'jumok[moses]'",
    ]
