"""Number phrases for real sentences: an expression in one of its spellings, and what follows it.

`phrases.toml` has the counters, units, particles, endings, and phrases that stay as they are.
"""

import re
import tomllib
from collections.abc import Callable
from importlib import resources
from random import Random
from typing import Any

from jumok.data.numbers.expressions import (
    Expression,
    cardinal,
    counter,
    date,
    decimal,
    draw,
    draw_number,
    ordinal,
    price,
    unit,
)
from jumok.data.numbers.number_words import counter_number, josa, sino_korean
from jumok.data.numbers.splits import number_split

_DIGITS_AND_PLACES = "일이삼사오육칠팔구십백천만"
_ONE_SYLLABLE = "삼오육칠팔십백천만"  # in one word with its unit
_READ_OTHERWISE = ("점", "일", "분", "년", "도", "대")  # after 일 and 이: 이 점, "this point"


def _table() -> dict[str, Any]:
    text = resources.files("jumok.data.numbers").joinpath("phrases.toml").read_text("utf-8")
    return tomllib.loads(text)


_TABLE = _table()
_COUNTERS = [
    (name, int(most)) for most, names in _TABLE["counters"].items() for name in names.split()
]
_UNITS = [
    (name, *map(int, ends.split("-"))) for ends, names in _TABLE["units"].items()
    for name in names.split()
]  # fmt: skip
_TAILS: dict[str, list[str]] = {
    name: [tail.replace("_", " ") for tail in tails.split()]
    for name, tails in _TABLE["particles"].items()
}

STAYING: list[str] = [
    phrase for phrases in _TABLE["staying"].values() for phrase in phrases.split("|")
]
LISTS: dict[str, list[str]] = {name: words.split() for name, words in _TABLE["lists"].items()}


def number_phrase(random: Random, split: str, *, last: bool) -> tuple[str, str]:
    """A random phrase, spoken and written, for the middle or the end of a sentence.

    Its number is of the split.

    >>> number_phrase(Random(2), "train", last=True)
    ('세 박스 남았어요', '3박스 남았어요')
    """
    while True:
        expression = _DRAWS[random.choice(_KINDS)](random)
        if number_split(expression) == split:
            break
    tail = _tail(random, expression, last=last)
    return _respaced(random, expression.spoken) + tail, expression.written + tail


def _tail(random: Random, expression: Expression, *, last: bool) -> str:
    """A particle, an ending or a word after the expression; "" at times."""
    bare = "_bare" if expression.kind in ("cardinal", "score", "phone") else ""
    if last:
        tail = random.choice(_TAILS[f"end{bare}"])
    else:
        form = 1.0 if bare else random.random()
        if form < 0.2:
            return ""
        tail = random.choice(_TAILS["words" if form < 0.35 else f"middle{bare}"])
    particle, space, word = tail.partition(" ")
    return (josa(expression.spoken, particle) if particle else "") + space + word


def _respaced(random: Random, spoken: str) -> str:
    """The number without the space after 만, or with one after 천 and 백, at times."""
    form = random.random()
    if form < 0.1:
        return spoken.replace("만 ", "만").replace("억 ", "억")
    if form < 0.16:
        return re.sub("(?<=[일이삼사오육칠팔구])([천백])(?=[일이삼사오육칠팔구])", r"\1 ", spoken)
    return spoken


def _joined(random: Random, expression: Expression, number: str, name: str) -> Expression:
    """The expression with its unit in one word at times, where that is not another word."""
    if random.random() > 0.3 or number == "한" or name == "일" or (number, name) == ("세", "대"):
        return expression
    alone = len(number) == 1 and number in _DIGITS_AND_PLACES
    if alone and not (number in _ONE_SYLLABLE and name in LISTS["after_one_syllable"]):
        return expression
    return expression._replace(spoken=expression.spoken.replace(f" {name}", name))


def _counter(random: Random) -> Expression:
    name, most = random.choice(_COUNTERS)
    number = random.randint(1, random.choice((5, 12, most)))
    if random.random() < 0.15:
        number = 10 * random.randint(1, max(most // 10, 3))
    return _joined(random, counter(number, name), counter_number(number), name)


def _unit(random: Random) -> Expression:
    name, low, high = random.choice(_UNITS)
    number = draw_number(random, low, high)
    if high > 99_999 and random.random() < 0.7:  # 오백만 명
        number = random.randint(1, 99) * 10 ** random.randint(1, 5)
    if name == "년" and random.random() < 0.4:
        number = random.randint(1900, 2040)
    if number < 3 and name in _READ_OTHERWISE:
        number += 2
    return _joined(random, unit(number, name), sino_korean(number).split(" ")[-1], name)


def _price(random: Random) -> Expression:
    step = 10 ** random.choice((1, 2, 3, 3, 4, 4, 5, 6, 7))
    number = step * (
        random.randint(1, 99) if random.random() < 0.5 else draw_number(random, 1, 999)
    )
    return _joined(random, price(number), sino_korean(number).split(" ")[-1], "원")


def _time(random: Random) -> Expression:
    expression = draw(random, "time")
    spoken = expression.spoken
    if random.random() < 0.3 and "한 시" not in spoken.split("열")[-1]:
        spoken = spoken.replace(" 시", "시")
    if random.random() < 0.3:
        spoken = spoken.replace(" 분", "분")
    return expression._replace(spoken=spoken)


def _date(random: Random) -> Expression:
    if random.random() < 0.2:
        return date(0, random.randint(1, 12))
    expression = draw(random, "date", random.choice(("day", "day", "past", "coming")))
    spoken = expression.spoken
    if random.random() < 0.4:  # 일 is one word with its number only after a month
        spoken = re.sub("(월 .+) 일$", r"\1일", spoken)
    if random.random() < 0.3:
        spoken = spoken.replace(" 년", "년")
    return expression._replace(spoken=spoken)


def _decimal(random: Random) -> Expression:
    name = random.choice(LISTS["decimals"])
    zeros_first = "".join(
        str(random.randint(0, 9)) for _ in range(random.choice((0, 0, 0, 1, 1, 2)))
    )
    number = f"{draw_number(random, 0, 120)}.{zeros_first}{random.randint(1, 9)}"
    expression = decimal(number, name)
    spoken = expression.spoken
    if random.random() < 0.3:
        spoken = spoken.replace(f" {name}", name)
    if random.random() < 0.2:
        spoken = spoken.replace(" 점 ", "점 ")
    return expression._replace(spoken=spoken)


def _ordinal(random: Random) -> Expression:
    if random.random() < 0.7:
        expression = ordinal(random.randint(1, random.choice((5, 12, 99))), "번째")
        if random.random() < 0.3:
            return expression._replace(spoken=expression.spoken.replace(" ", ""))
        return expression
    return ordinal(draw_number(random, 1, 99), random.choice("회장조차과항호"))


def _score(random: Random) -> Expression:
    """Two numbers with 대: 삼 대 이, 3 대 2."""
    left, right = random.randint(0, 12), random.randint(0, 12)
    spoken = f"{sino_korean(left)} 대 {sino_korean(right)}"
    return Expression("score", f"{left}:{right}", spoken, f"{left} 대 {right}")


def _fraction(random: Random) -> Expression:
    """A numerator and a denominator: 삼분의 이, 3분의 2."""
    denominator = random.randint(2, random.choice((5, 10, 100)))
    numerator = random.randint(1, denominator - 1)
    of = random.choice(("분의", " 분의"))
    spoken = f"{sino_korean(denominator)}{of} {sino_korean(numerator)}"
    value = f"{numerator}/{denominator}"
    return Expression("fraction", value, spoken, f"{denominator}분의 {numerator}")


def _nights(random: Random) -> Expression:
    """Nights and days of a journey: 삼 박 사 일, 3박 4일."""
    nights = random.randint(1, 9)
    spoken = f"{sino_korean(nights)} 박 {sino_korean(nights + 1)} 일"
    if random.random() < 0.5:
        spoken = spoken.replace(" 박", "박").replace(" 일", "일")
    return Expression("nights", str(nights), spoken, f"{nights}박 {nights + 1}일")


_DRAWS: dict[str, Callable[[Random], Expression]] = {
    "counter": _counter,
    "unit": _unit,
    "price": _price,
    "time": _time,
    "date": _date,
    "decimal": _decimal,
    "ordinal": _ordinal,
    "cardinal": lambda random: cardinal(draw_number(random, 11, 99_999_999)),
    "phone": lambda random: draw(random, "phone"),
    "score": _score,
    "fraction": _fraction,
    "nights": _nights,
}
_WEIGHTS = {"counter": 10, "unit": 13, "price": 6, "time": 7, "date": 5, "decimal": 3}
_KINDS = [kind for kind in _DRAWS for _ in range(2 * _WEIGHTS.get(kind, 1))]
