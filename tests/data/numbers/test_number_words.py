"""Readings against a second way of computing them and against what Korean grammars print."""

import pytest

from jumok.data.numbers.number_words import (
    counter_number,
    josa,
    month_name,
    native_korean,
    sino_korean,
)
from tests.data.numbers.parser import fitting_particle, native_value, sino_value


def test_sino_korean_readings_round_trip() -> None:
    whole_group = range(10_000)
    spread = range(10_000, 100_000_000, 30_011)
    for number in (*whole_group, *spread, *(value * 10_000 for value in range(1, 10_000, 7))):
        assert sino_value(sino_korean(number)) == number


@pytest.mark.parametrize(
    "spelling", ["일십", "일만", "삼만오천", "십십", "이삼", "만  일", "", "영일"]
)
def test_other_spellings_are_not_numerals(spelling: str) -> None:
    assert sino_value(spelling) is None


def test_native_readings_round_trip() -> None:
    assert [native_value(native_korean(number)) for number in range(1, 100)] == [*range(1, 100)]
    assert native_value("스물") is None
    assert native_value("스무한") is None


def test_irregular_words() -> None:
    assert (native_korean(20), native_korean(21), native_korean(3), native_korean(4)) == (
        "스무",
        "스물한",
        "세",
        "네",
    )
    assert (month_name(6), month_name(10), month_name(1), month_name(12)) == (
        "유월",
        "시월",
        "일월",
        "십이월",
    )
    assert (counter_number(99), counter_number(100)) == ("아흔아홉", "백")


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
        assert josa(word, pair) == fitting_particle(word, pair)
    assert [josa(word, "(으)로") for word in ("일", "육", "이")] == ["로", "으로", "로"]
