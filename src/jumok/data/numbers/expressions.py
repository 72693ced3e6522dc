"""Number expressions of each kind: value, spoken form and written form.

A function named after its kind returns the expression of a value; `draw` returns a random one.
Thousands are separated by commas except in years, phone numbers and numbers that name something.
"""

from calendar import monthrange
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from jumok.data.numbers.number_words import (
    counter_number,
    digit_by_digit,
    month_name,
    native_korean,
    sino_korean,
)

_ABBREVIATIONS = {"킬로미터": "km", "킬로그램": "kg", "센티미터": "cm", "퍼센트": "%"}
_NAMING_UNITS = ("년", "호", "번", "동", "번지")  # no commas: 1203호
_HOURS = {  # the hours a part of the day may name; "" is a time without one
    "": range(1, 13),
    "새벽": range(1, 6),
    "아침": range(6, 10),
    "오전": range(7, 12),
    "오후": range(1, 12),
    "저녁": range(5, 10),
    "밤": range(8, 13),
}
_AREA_CODES = ("031", "032", "042", "051", "053", "062", "064")
_NATIVE_LIMITS = {"명": 9_999, "살": 99, "번": 99, "시간": 240}
_SINO_RANGES = {
    "층": (1, 63),
    "호": (101, 999),
    "번": (1, 999),
    "쪽": (1, 600),
    "년": (1, 99),
    "개월": (1, 48),
    "일": (10, 365),
    "분": (1, 120),
    "인분": (1, 50),
    "센티미터": (80, 199),
    "킬로그램": (1, 400),
    "킬로미터": (1, 2_000),
}
_DECIMAL_RANGES = {"퍼센트": (0, 99), "도": (0, 40), "배": (2, 30), "킬로그램": (3, 99)}
_DATE_YEARS = {"past": (1950, 2025), "coming": (2026, 2035)}


class Expression(NamedTuple):
    """A number expression; splits are by `value`, which is the same for all units."""

    kind: str
    value: str
    spoken: str
    written: str


def cardinal(number: int) -> Expression:
    """A bare number.

    >>> cardinal(356_700)
    Expression(kind='cardinal', value='356700', spoken='삼십오만 육천칠백', written='356,700')
    """
    return Expression("cardinal", str(number), sino_korean(number), f"{number:,}")


def counter(number: int, unit: str) -> Expression:
    """Things counted with native numerals up to 99.

    >>> counter(21, "명")
    Expression(kind='counter', value='21', spoken='스물한 명', written='21명')
    """
    return Expression(
        "counter", str(number), f"{counter_number(number)} {unit}", f"{number:,}{unit}"
    )


def unit(number: int, name: str) -> Expression:
    """A quantity with a unit, always Sino-Korean.

    >>> unit(42, "킬로미터")
    Expression(kind='unit', value='42', spoken='사십이 킬로미터', written='42km')
    >>> unit(1_203, "호").written, unit(1_203, "회").written
    ('1203호', '1,203회')
    """
    digits = str(number) if name in _NAMING_UNITS else f"{number:,}"
    written = digits + _ABBREVIATIONS.get(name, name)
    return Expression("unit", str(number), f"{sino_korean(number)} {name}", written)


def price(number: int) -> Expression:
    """An amount of won.

    >>> price(15_000)
    Expression(kind='price', value='15000', spoken='만 오천 원', written='15,000원')
    """
    return Expression("price", str(number), f"{sino_korean(number)} 원", f"{number:,}원")


def decimal(number: str, name: str) -> Expression:
    """An integer or a decimal fraction (in written form) with its unit.

    >>> decimal("3.14", "퍼센트")
    Expression(kind='decimal', value='3.14', spoken='삼 점 일사 퍼센트', written='3.14%')
    """
    whole, _, fraction = number.partition(".")
    spoken = sino_korean(int(whole)) + (f" 점 {digit_by_digit(fraction)}" if fraction else "")
    written = number + _ABBREVIATIONS.get(name, name)
    return Expression("decimal", number, f"{spoken} {name}", written)


def ordinal(number: int, unit: str) -> Expression:
    """An ordinal: native with 번째, otherwise Sino-Korean after 제.

    >>> ordinal(1, "번째").spoken, ordinal(21, "번째").written
    ('첫 번째', '21번째')
    >>> ordinal(23, "회")
    Expression(kind='ordinal', value='23', spoken='제이십삼 회', written='제23회')
    """
    if unit == "번째":
        spoken = "첫" if number == 1 else native_korean(number)
        return Expression("ordinal", str(number), f"{spoken} 번째", f"{number}번째")
    return Expression(
        "ordinal", str(number), f"제{sino_korean(number)} {unit}", f"제{number}{unit}"
    )


def date(year: int = 0, month_number: int = 0, day: int = 0) -> Expression:
    """A calendar date; a part that is 0 is omitted.

    >>> date(2026, 11, 20)
    Expression(kind='date', value='2026-11-20', spoken='이천이십육 년 십일월 이십 일', \
written='2026년 11월 20일')
    >>> date(0, 6, 6).spoken, date(0, 10).written
    ('유월 육 일', '10월')
    """
    value, spoken, written = [], [], []
    if year:
        value.append(str(year))
        spoken.append(f"{sino_korean(year)} 년")
        written.append(f"{year}년")
    if month_number:
        value.append(f"{month_number:02d}")
        spoken.append(month_name(month_number))
        written.append(f"{month_number}월")
    if day:
        value.append(f"{day:02d}")
        spoken.append(f"{sino_korean(day)} 일")
        written.append(f"{day}일")
    return Expression("date", "-".join(value), " ".join(spoken), " ".join(written))


def time(part: str, hour: int, minute: int = 0, half: bool = False) -> Expression:
    """A time of day: hours native, minutes Sino-Korean; with `half` thirty minutes are 반.

    >>> time("오후", 3, 25)
    Expression(kind='time', value='오후 3:25', spoken='오후 세 시 이십오 분', \
written='오후 3시 25분')
    >>> time("", 3, 30, half=True)[2:] + time("", 3, 30)[2:]
    ('세 시 반', '3시 30분', '세 시 삼십 분', '3시 30분')
    """
    spoken, written = f"{part} {native_korean(hour)} 시".lstrip(), f"{part} {hour}시".lstrip()
    if minute:
        spoken += " 반" if half else f" {sino_korean(minute)} 분"
        written += f" {minute}분"
    return Expression("time", f"{part} {hour}:{minute:02d}".lstrip(), spoken, written)


def phone(number: str) -> Expression:
    """A phone number with hyphens.

    >>> phone("010-1234-5678")
    Expression(kind='phone', value='010-1234-5678', spoken='공일공 일이삼사 오육칠팔', \
written='010-1234-5678')
    """
    spoken = " ".join(digit_by_digit(group, zero="공") for group in number.split("-"))
    return Expression("phone", number, spoken, number)


def draw(random: Random, kind: str, detail: str = "") -> Expression:
    """A random expression of a kind; `detail` is its unit, or for dates past, coming or day."""
    return _DRAWS[kind](random, detail)


def draw_number(random: Random, low: int, high: int) -> int:
    """A number of low ... high: its length is drawn first; zeros are more frequent."""
    while True:
        length = random.randint(len(str(low)), len(str(high)))
        number = random.randint(1, 9)
        for _ in range(length - 1):
            number = 10 * number + (0 if random.random() < 0.3 else random.randint(1, 9))
        if low <= number <= high:
            return number


def _draw_cardinal(random: Random, _: str) -> Expression:
    return cardinal(draw_number(random, 1, 99_999_999))


def _draw_counter(random: Random, detail: str) -> Expression:
    limit = _NATIVE_LIMITS.get(detail, 999)
    few = limit < 100 or random.random() < 0.9
    return counter(random.randint(1, 99) if few else draw_number(random, 100, limit), detail)


def _draw_unit(random: Random, detail: str) -> Expression:
    return unit(draw_number(random, *_SINO_RANGES[detail]), detail)


def _draw_price(random: Random, _: str) -> Expression:
    step = random.choice((10, 100, 100, 1_000, 1_000, 10_000))
    return price(step * draw_number(random, 1, 999))


def _draw_decimal(random: Random, detail: str) -> Expression:
    whole = str(random.randint(*_DECIMAL_RANGES[detail]))
    length = random.choice((0, 1, 1, 1, 2, 2))
    if not length:
        return decimal(whole, detail)
    zeros_first = "".join(str(random.randint(0, 9)) for _ in range(length - 1))
    return decimal(f"{whole}.{zeros_first}{random.randint(1, 9)}", detail)


def _draw_ordinal(random: Random, detail: str) -> Expression:
    return ordinal(draw_number(random, 1, 99 if detail == "번째" else 300), detail)


def _draw_date(random: Random, detail: str) -> Expression:
    month_number = random.randint(1, 12)
    if detail == "day":
        return date(0, month_number, random.randint(1, monthrange(2024, month_number)[1]))
    year = random.randint(*_DATE_YEARS[detail])
    day = random.randint(1, monthrange(year, month_number)[1])
    form = random.choice(("day", "day", "day", "month", "year"))
    return date(year, month_number if form != "year" else 0, day if form == "day" else 0)


def _draw_time(random: Random, _: str) -> Expression:
    part = random.choice(tuple(_HOURS))
    hour = random.choice(_HOURS[part])
    minute = random.choice((0, 5 * random.randint(0, 11), random.randint(0, 59)))
    return time(part, hour, minute, half=minute == 30 and random.random() < 0.5)


def _draw_phone(random: Random, _: str) -> Expression:
    head = random.choice(("010", "010", "010", "02", random.choice(_AREA_CODES)))
    middle = random.randint(1_000, 9_999) if head == "010" else random.randint(200, 9_999)
    return phone(f"{head}-{middle}-{random.randint(0, 9_999):04d}")


_DRAWS: dict[str, Callable[[Random, str], Expression]] = {
    "cardinal": _draw_cardinal,
    "counter": _draw_counter,
    "unit": _draw_unit,
    "price": _draw_price,
    "decimal": _draw_decimal,
    "ordinal": _draw_ordinal,
    "date": _draw_date,
    "time": _draw_time,
    "phone": _draw_phone,
}
