"""NFC, never NFKC; NFD repaired; what cannot be stored refused by name."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumok.errors import InputError
from jumok.text.normalization import check_text, compose_hangul, nfc, normalizer
from tests.errors import raises

KEPT = ["ㅋㅋ", "ㅠㅠ", "㈜", "…", "①", "½", "Ａ", "㎏", "한글", "~", "～"]


@pytest.mark.parametrize("text", KEPT)
def test_nfc_keeps_what_nfkc_breaks(text: str) -> None:
    assert nfc(text) == text


@given(st.text(st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3)))
def test_decomposed_hangul_is_composed_by_both_rules(text: str) -> None:
    apart = unicodedata.normalize("NFD", text)
    assert nfc(apart) == compose_hangul(apart) == text


@given(st.text("가각한나ㅋㅠ\u1100\u1161\u11a8\u1112\u11ab\u110fe\u0301\u0323\u212b豈 "))
def test_composing_hangul_equals_nfc_of_hangul(text: str) -> None:
    composed = compose_hangul(text)
    assert nfc(composed) == nfc(text)
    assert compose_hangul(composed) == composed


def test_composing_hangul_keeps_other_characters() -> None:
    assert compose_hangul("cafe\u0301 \u1100 \u1161 ㅋㅏ \uac00\u11a8") == (
        "cafe\u0301 \u1100 \u1161 ㅋㅏ 각"
    )


def test_the_rule_of_a_name() -> None:
    apart = "\u1100\u1161 e\u0301"
    assert normalizer("nfc")(apart) == "가 é"
    assert normalizer("none")(apart) == apart
    assert normalizer("nmt_nfkc")(apart) == normalizer("")(apart) == "가 e\u0301"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("한\0글", "text.nul"),
        ("가나\ud83d", "text.lone_surrogate"),
        ("\udc00", "text.lone_surrogate"),
    ],
)
def test_characters_that_no_file_can_contain_are_named(text: str, message: str) -> None:
    with raises(InputError, message):
        check_text(text)
