"""A second opinion on the numbers corpus: every way a spoken sentence can be read.

It shares nothing with the generator but the lines of the templates. Numbers are summed up from
left to right instead of being looked up, any value is allowed instead of the generator's ranges,
and all derivations are followed: a sentence has one reading when exactly one comes back.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import cache

DIGITS = {syllable: value for value, syllable in enumerate("일이삼사오육칠팔구", start=1)}
PLACES = {"십": 10, "백": 100, "천": 1000}
ONES = ["한", "두", "세", "네", "다섯", "여섯", "일곱", "여덟", "아홉"]
TENS = ["열", "스물", "서른", "마흔", "쉰", "예순", "일흔", "여든", "아흔"]
MONTHS = ["일월", "이월", "삼월", "사월", "오월", "유월"]
MONTHS += ["칠월", "팔월", "구월", "시월", "십일월", "십이월"]
SYMBOLS = {"킬로미터": "km", "킬로그램": "kg", "센티미터": "cm", "퍼센트": "%"}
TOKEN = re.compile(r"(\{[^}]+\}|을\(를\)|이\(가\)|은\(는\)|\(으\)로|\(이\)라고)")
NUMBER_SYLLABLES = re.compile("[영일이삼사오육칠팔구십백천만 ]+")
PHONE_DIGITS = str.maketrans("공일이삼사오육칠팔구", "0123456789")
PHONE = re.compile("공D{1,2} D{3,4} D{4}".replace("D", "[공일이삼사오육칠팔구]"))

Reading = tuple[int, str]  # where an expression ends in the sentence, and its written form


def all_readings(sentence: str, templates: Iterable[str]) -> list[str]:
    """The written form of every derivation of a spoken sentence by any of the templates."""
    return [
        written
        for tokens in map(_tokens, templates)
        if sentence.startswith(tokens[0])
        for written in _derive(sentence, 0, tokens, "")
    ]


@cache
def _tokens(template: str) -> tuple[str, ...]:
    return tuple(TOKEN.split(template))


def _derive(sentence: str, start: int, tokens: tuple[str, ...], written: str) -> Iterator[str]:
    if not tokens:
        if start == len(sentence):
            yield written
        return
    token, rest = tokens[0], tokens[1:]
    if token.startswith("{"):
        kind, _, detail = token[1:-1].partition(":")
        for end, form in KINDS[kind](sentence, start, detail):
            yield from _derive(sentence, end, rest, written + form)
        return
    if "(" in token:
        token = fitting_particle(sentence[start - 1], token)
    if sentence.startswith(token, start):
        yield from _derive(sentence, start + len(token), rest, written + token)


def fitting_particle(syllable: str, notation: str) -> str:
    """The particle that a dictionary's notation means after a syllable."""
    jamo = unicodedata.normalize("NFD", syllable)
    closed = len(jamo) == 3
    if notation.startswith("("):  # (으)로 and (이)라고: the bracket is said after a consonant
        liquid = notation == "(으)로" and jamo.endswith("\u11af")
        bracket, rest = notation[1], notation[3:]
        return bracket + rest if closed and not liquid else rest
    return notation[0] if closed else notation[2]


@cache
def sino_value(words: str) -> int | None:
    """The value of a Sino-Korean numeral, None for what is not one in the corpus's spelling."""
    if words == "영":
        return 0
    high, ten_thousand, low = words.rpartition("만")
    if not ten_thousand:
        return _group_value(low)
    above = _group_value(high) if high else 1
    if above is None or high == "일":
        return None
    if not low:
        return above * 10_000
    below = _group_value(low[1:]) if low[0] == " " else None
    return None if below is None else above * 10_000 + below


def _group_value(word: str) -> int | None:
    total, digit, last_place = 0, 0, 10_000
    for syllable in word:
        if syllable in DIGITS and not digit:
            digit = DIGITS[syllable]
        elif PLACES.get(syllable, last_place) < last_place and digit != 1:
            last_place = PLACES[syllable]
            total, digit = total + max(digit, 1) * last_place, 0
        else:
            return None
    return total + digit or None


@cache
def native_value(word: str) -> int | None:
    """The value of a native numeral before a counter, 1 ... 99."""
    if word in ("스무", "스물"):
        return 20 if word == "스무" else None
    for index, ten in enumerate(["", *TENS]):
        if word.startswith(ten) and word[len(ten) :] in ["", *ONES]:
            value = 10 * index + ["", *ONES].index(word[len(ten) :])
            if value:
                return value
    return None


def _sino(sentence: str, start: int) -> Iterator[tuple[int, int]]:
    """Every Sino-Korean numeral that begins at `start`: its end and value."""
    longest = NUMBER_SYLLABLES.match(sentence, start)
    for end in range(start + 1, longest.end() + 1 if longest else start):
        value = sino_value(sentence[start:end])
        if value is not None:
            yield end, value


def _native(sentence: str, start: int) -> Iterator[tuple[int, int]]:
    for end in range(start + 1, min(start + 5, len(sentence)) + 1):
        value = native_value(sentence[start:end])
        if value is not None:
            yield end, value


def _then(
    sentence: str, readings: Iterable[tuple[int, int]], word: str
) -> Iterator[tuple[int, int]]:
    """The readings that are followed by a word; they end after it."""
    return ((end + len(word), value) for end, value in readings if sentence.startswith(word, end))


def _cardinal(sentence: str, start: int, _: str) -> Iterator[Reading]:
    return ((end, f"{value:,}") for end, value in _sino(sentence, start))


def _unit(sentence: str, start: int, unit: str) -> Iterator[Reading]:
    for end, value in _then(sentence, _sino(sentence, start), " " + unit):
        yield end, f"{value:,}{SYMBOLS.get(unit, unit)}"


def _price(sentence: str, start: int, _: str) -> Iterator[Reading]:
    return _unit(sentence, start, "원")


def _counter(sentence: str, start: int, unit: str) -> Iterator[Reading]:
    for end, value in _then(sentence, _native(sentence, start), " " + unit):
        yield end, f"{value}{unit}"
    for end, value in _then(sentence, _sino(sentence, start), " " + unit):
        if value >= 100:
            yield end, f"{value:,}{unit}"


def _decimal(sentence: str, start: int, unit: str) -> Iterator[Reading]:
    yield from _unit(sentence, start, unit)
    for end, whole in _then(sentence, _sino(sentence, start), " 점 "):
        fraction = re.compile(f"([영일이삼사오육칠팔구]+) {unit}").match(sentence, end)
        if fraction:
            digits = "".join(str(DIGITS.get(syllable, 0)) for syllable in fraction[1])
            yield fraction.end(), f"{whole}.{digits}{SYMBOLS.get(unit, unit)}"


def _ordinal(sentence: str, start: int, unit: str) -> Iterator[Reading]:
    if unit == "번째":
        if sentence.startswith("첫 번째", start):
            yield start + 4, "1번째"
        for end, value in _then(sentence, _native(sentence, start), " 번째"):
            if value > 1:
                yield end, f"{value}번째"
    elif sentence.startswith("제", start):
        for end, value in _then(sentence, _sino(sentence, start + 1), " " + unit):
            yield end, f"제{value}{unit}"


def _date(sentence: str, start: int, _: str) -> Iterator[Reading]:
    yield from _month_and_day(sentence, start)
    for end, year in _then(sentence, _sino(sentence, start), " 년"):
        yield end, f"{year}년"
        if sentence.startswith(" ", end):
            for last, written in _month_and_day(sentence, end + 1):
                yield last, f"{year}년 {written}"


def _month_and_day(sentence: str, start: int) -> Iterator[Reading]:
    for number, name in enumerate(MONTHS, start=1):
        if sentence.startswith(name, start):
            end = start + len(name)
            yield end, f"{number}월"
            if sentence.startswith(" ", end):
                for last, day in _then(sentence, _sino(sentence, end + 1), " 일"):
                    yield last, f"{number}월 {day}일"


def _time(sentence: str, start: int, _: str) -> Iterator[Reading]:
    part = re.compile("(?:(?:새벽|아침|오전|오후|저녁|밤) )?").match(sentence, start)
    assert part is not None
    for end, hour in _then(sentence, _native(sentence, part.end()), " 시"):
        written = f"{part[0]}{hour}시"
        yield end, written
        if sentence.startswith(" 반", end):
            yield end + 2, f"{written} 30분"
        if sentence.startswith(" ", end):
            for last, minute in _then(sentence, _sino(sentence, end + 1), " 분"):
                yield last, f"{written} {minute}분"


def _phone(sentence: str, start: int, _: str) -> Iterator[Reading]:
    spoken = PHONE.match(sentence, start)
    if spoken:  # blanks end the first two groups and the last has four digits: one way at most
        yield spoken.end(), "-".join(spoken[0].translate(PHONE_DIGITS).split(" "))


KINDS: dict[str, Callable[[str, int, str], Iterator[Reading]]] = {
    "cardinal": _cardinal,
    "counter": _counter,
    "unit": _unit,
    "price": _price,
    "decimal": _decimal,
    "ordinal": _ordinal,
    "date": _date,
    "time": _time,
    "phone": _phone,
}
