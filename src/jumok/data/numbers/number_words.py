"""Numbers in Korean words.

Spaces follow the Hangul orthography: after 만 and 억 (article 44: "삼십오만 육천칠백") and before
a unit (article 43: "세 개", "만 오천 원"). The name of a month is one word (십일월). A leading one
is omitted before 십, 백, 천 and 만.
"""

DIGITS = "영일이삼사오육칠팔구"
_PLACES = ("", "십", "백", "천")
_NATIVE_ONES = ("", "한", "두", "세", "네", "다섯", "여섯", "일곱", "여덟", "아홉")
_NATIVE_TENS = ("", "열", "스물", "서른", "마흔", "쉰", "예순", "일흔", "여든", "아흔")
_IRREGULAR_MONTHS = {6: "유월", 10: "시월"}
_FIRST_SYLLABLE = ord("가")
_FINALS = 28  # finals of a Hangul syllable, "none" included
_RIEUL = 8  # the index of the final ㄹ


def sino_korean(number: int) -> str:
    """The Sino-Korean reading of 0 ... 999,999,999,999.

    >>> sino_korean(356_700), sino_korean(15_000), sino_korean(10_010_000), sino_korean(0)
    ('삼십오만 육천칠백', '만 오천', '천일만', '영')
    >>> sino_korean(120_000_000)
    '일억 이천만'
    """
    if number == 0:
        return DIGITS[0]
    hundred_millions, rest = divmod(number, 100_000_000)
    ten_thousands, rest = divmod(rest, 10_000)
    groups = [_group(hundred_millions) + "억"] if hundred_millions else []
    if ten_thousands:
        groups.append(("" if ten_thousands == 1 else _group(ten_thousands)) + "만")
    if rest:
        groups.append(_group(rest))
    return " ".join(groups)


def _group(number: int) -> str:
    """The reading of 1 ... 9,999: each digit except zero with its place value."""
    spoken = ""
    for place in (3, 2, 1, 0):
        digit = number // 10**place % 10
        if digit:
            omitted = digit == 1 and place > 0
            spoken += ("" if omitted else DIGITS[digit]) + _PLACES[place]
    return spoken


def native_korean(number: int) -> str:
    """The native Korean reading of 1 ... 99 before a counter.

    >>> native_korean(3), native_korean(20), native_korean(21)
    ('세', '스무', '스물한')
    """
    if number == 20:
        return "스무"
    tens, ones = divmod(number, 10)
    return _NATIVE_TENS[tens] + _NATIVE_ONES[ones]


def counter_number(number: int) -> str:
    """The reading before a native counter: native up to 99, Sino-Korean from 100 on.

    >>> counter_number(99), counter_number(120)
    ('아흔아홉', '백이십')
    """
    return native_korean(number) if number < 100 else sino_korean(number)


def month_name(number: int) -> str:
    """The name of month 1 ... 12.

    >>> month_name(6), month_name(10), month_name(11)
    ('유월', '시월', '십일월')
    """
    return _IRREGULAR_MONTHS.get(number, sino_korean(number) + "월")


def digit_by_digit(digits: str, zero: str = "영") -> str:
    """Digits one by one: zero is 영 after a decimal point, 공 in a phone number.

    >>> digit_by_digit("05"), digit_by_digit("010", zero="공")
    ('영오', '공일공')
    """
    return "".join(DIGITS[int(digit)] for digit in digits).replace(DIGITS[0], zero)


def josa(word: str, pair: str) -> str:
    """The form of a particle (josa) or ending that agrees with the final sound of a Hangul word.

    `pair` is the dictionary form of a particle, the form of an ending after a consonant with that
    after a vowel in parentheses, or a form that never changes; 로 also follows ㄹ.

    >>> josa("만 오천 원", "을(를)"), josa("퍼센트", "을(를)"), josa("세 시", "이에요(예요)")
    ('을', '를', '예요')
    >>> josa("칠", "(으)로"), josa("육", "(으)로"), josa("이", "(으)로")
    ('로', '으로', '로')
    """
    if pair == "(으)로":
        return "으로" if _final(word) not in (0, _RIEUL) else "로"
    after_consonant, _, after_vowel = pair.rstrip(")").partition("(")
    return after_consonant if _final(word) or not after_vowel else after_vowel


def _final(word: str) -> int:
    """The index of the final consonant of the last syllable, 0 for none."""
    return (ord(word[-1]) - _FIRST_SYLLABLE) % _FINALS
