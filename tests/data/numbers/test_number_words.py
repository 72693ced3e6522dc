"""Readings against a second way of computing them and against what Korean grammars print."""

import pytest

from jumok.data.numbers.number_words import counted, month, native, particle, sino
from tests.data.numbers.parser import fitting_particle, native_value, sino_value


def test_sino_readings_are_read_back_to_their_number() -> None:
    whole_group = range(10_000)
    spread = range(10_000, 100_000_000, 30_011)
    for number in (*whole_group, *spread, *(value * 10_000 for value in range(1, 10_000, 7))):
        assert sino_value(sino(number)) == number


@pytest.mark.parametrize(
    "spelling", ["일십", "일만", "삼만오천", "십십", "이삼", "만  일", "", "영일"]
)
def test_other_spellings_are_no_numerals(spelling: str) -> None:
    assert sino_value(spelling) is None


def test_native_readings_are_read_back_to_their_number() -> None:
    assert [native_value(native(number)) for number in range(1, 100)] == [*range(1, 100)]
    assert native_value("스물") is None
    assert native_value("스무한") is None


def test_irregular_words() -> None:
    assert (native(20), native(21), native(3), native(4)) == ("스무", "스물한", "세", "네")
    assert (month(6), month(10), month(1), month(12)) == ("유월", "시월", "일월", "십이월")
    assert (counted(99), counted(100)) == ("아흔아홉", "백")


@pytest.mark.parametrize("pair", ["을(를)", "이(가)", "은(는)", "(으)로"])
def test_particles_fit_the_final_sound(pair: str) -> None:
    for word in (
        "영",
        "일",
        "이",
        "삼",
        "사",
        "오",
        "육",
        "칠",
        "팔",
        "구",
        "공",
        "만",
        "년",
        "월",
    ):
        assert particle(word, pair) == fitting_particle(word, pair)
    assert [particle(word, "(으)로") for word in ("일", "육", "이")] == ["로", "으로", "로"]
