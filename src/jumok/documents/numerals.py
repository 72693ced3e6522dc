"""Numbers in digits: which of them a translation lacks, and which it has in addition.

    1,234 = 1234     03 = 3     3만 5천 = 35,000     2.5 million = 2,500,000

A number up to 12 may be a word in the translation, as "three" or "March". Words of the text are not
read as numbers: where it has a large one, as 백만 or "million", more numbers are no fault.
"""

import re
from collections import Counter
from decimal import Decimal
from functools import cache, partial

_UNITS = {"십": 10, "백": 100, "천": 1000}
_GROUPS = {"만": 10**4, "억": 10**8, "조": 10**12}
_ENGLISH = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9,
            "trillion": 10**12}  # fmt: skip
_ENTITY = re.compile(r"&#?\w{1,31};")
_DECIMAL = r"(?:\d{1,3}(?:,\d{3})++(?!\d)|\d++)(?:\.\d++)?"
_NUMBER = re.compile(
    rf"(?P<korean>(?:{_DECIMAL}(?:[십백천][만억조]?|[만억조])\s?)++(?:{_DECIMAL})?)"
    rf"|(?P<english>{_DECIMAL})[ -](?P<unit>{'|'.join(_ENGLISH)})s?\b"
    rf"|(?P<dotted>\d++(?:\.\d++){{2,}})|{_DECIMAL}",
    re.ASCII,
)
_PART = re.compile(rf"({_DECIMAL})([십백천]?)([만억조]?)", re.ASCII)
_LARGE_WORD = re.compile(
    r"[십백천만억조]|스물|스무|서른|마흔|쉰|예순|일흔|여든|아흔"
    r"|\b(?:\w+teen|(?:twen|thir|for|fif|six|seven|eigh|nine)ty|dozen|half"
    rf"|{'|'.join(_ENGLISH)})",
    re.IGNORECASE,
)
_WORDS = (  # of 1 to 12, as the beginnings of words
    r"one|first|once|single|jan(?:uary)?|한|하나|첫|일",
    r"two|second|twice|both|feb(?:ruary)?|두|둘|이",
    r"three|third|mar(?:ch)?|세|셋|삼",
    r"four|apr(?:il)?|네|넷|사",
    r"five|fifth|may|다섯|오",
    r"six|june?|여섯|육|유",
    r"seven|july?|일곱|칠",
    r"eight|aug(?:ust)?|여덟|팔",
    r"nine|ninth|sep(?:t|tember)?|아홉|구",
    r"ten|oct(?:ober)?|열|십|시월",
    r"eleven|nov(?:ember)?|열한|열하나|십일",
    r"twelve|twelfth|dec(?:ember)?|열두|열둘|십이",
)


def different_numbers(text: str, translation: str) -> tuple[list[str], list[str]]:
    """The numbers of a text that its translation lacks, and those that it has in addition.

    >>> different_numbers("1,234,567원입니다.", "13467.")
    (['1,234,567'], ['13467'])
    >>> different_numbers("3월 5일에 3만 원과 사과 2개", "30,000 won and two apples on March 05")
    ([], [])
    """
    expected, found = _numbers(text), _numbers(translation)
    left = Counter(value for value, _ in found)
    is_word = cache(partial(_is_word, translation))
    missing = []
    for value, written in expected:
        if left[value]:
            left[value] -= 1
        elif not is_word(value):
            missing.append(written)
    if _LARGE_WORD.search(text):
        return missing, []
    added = []
    for value, written in reversed(found):
        if left[value]:
            left[value] -= 1
            if not _is_small(value):
                added.append(written)
    return missing, added[::-1]


def _numbers(text: str) -> list[tuple[str, str]]:
    """The value of each number, in one form, and how it is written."""
    found = []
    for match in _NUMBER.finditer(_ENTITY.sub(" ", text)):
        written = match[0].strip()
        if match["korean"]:
            found.append((_plain(_korean(written)), written))
        elif match["english"]:
            factor = _ENGLISH[match["unit"]]
            found.append((_plain(_decimal(match["english"]) * factor), written))
        else:  # a date or a version has several numbers
            parts = written.split(".") if match["dotted"] else [written]
            found += [(_digits(part), part) for part in parts]
    return found


def _digits(written: str) -> str:
    """Digits without separators, and short ones without zeros before them: not those of phones."""
    digits = written.replace(",", "")
    return (digits.lstrip("0") or "0") if len(digits) <= 2 else digits


def _decimal(digits: str) -> Decimal:
    return Decimal(digits.replace(",", ""))


def _korean(text: str) -> Decimal:
    """The value of digits with Korean units.

    >>> _korean("3억 5천만"), _korean("1만 2300")
    (Decimal('350000000'), Decimal('12300'))
    """
    total, below = Decimal(0), Decimal(0)
    for digits, unit, group in _PART.findall(text):
        below += _decimal(digits) * _UNITS.get(unit, 1)
        if group:
            total, below = total + below * _GROUPS[group], Decimal(0)
    return total + below


def _plain(value: Decimal) -> str:
    digits = f"{value:f}"
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def _is_small(value: str) -> bool:
    return value.isdecimal() and len(value) <= 2 and int(value) <= len(_WORDS)


def _is_word(text: str, value: str) -> bool:
    """Whether a text has the word of a small number."""
    if not _is_small(value) or value == "0":
        return False
    return re.search(rf"\b(?:{_WORDS[int(value) - 1]})", text, re.IGNORECASE) is not None
