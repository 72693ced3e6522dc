"""A value -> how it is said in Korean.

One spacing convention, that of the Hangul orthography: a number has a space after 만 (article 44:
"삼십오만 육천칠백") and stands apart from its unit (article 43: "세 개", "만 오천 원"). The name of
a month is one word (십일월). A leading one is not said before 십, 백, 천 and 만.
"""

DIGITS = "영일이삼사오육칠팔구"
_PLACES = ("", "십", "백", "천")
_NATIVE_ONES = ("", "한", "두", "세", "네", "다섯", "여섯", "일곱", "여덟", "아홉")
_NATIVE_TENS = ("", "열", "스물", "서른", "마흔", "쉰", "예순", "일흔", "여든", "아흔")
_IRREGULAR_MONTHS = {6: "유월", 10: "시월"}
_FIRST_SYLLABLE = ord("가")
_FINALS = 28  # finals of a Hangul syllable, "none" included
_RIEUL = 8  # the index of the final ㄹ


def sino(number: int) -> str:
    """The Sino-Korean reading of 0 ... 99,999,999.

    >>> sino(356_700), sino(15_000), sino(10_010_000), sino(0)
    ('삼십오만 육천칠백', '만 오천', '천일만', '영')
    """
    if number == 0:
        return DIGITS[0]
    ten_thousands, rest = divmod(number, 10_000)
    groups = []
    if ten_thousands:
        groups.append(("" if ten_thousands == 1 else _group(ten_thousands)) + "만")
    if rest:
        groups.append(_group(rest))
    return " ".join(groups)


def _group(number: int) -> str:
    """The reading of 1 ... 9,999: digit and place by turns, zeros unsaid."""
    spoken = ""
    for place in (3, 2, 1, 0):
        digit = number // 10**place % 10
        if digit:
            silent = digit == 1 and place > 0
            spoken += ("" if silent else DIGITS[digit]) + _PLACES[place]
    return spoken


def native(number: int) -> str:
    """The native Korean reading of 1 ... 99 as it stands before a counter.

    >>> native(3), native(20), native(21)
    ('세', '스무', '스물한')
    """
    if number == 20:
        return "스무"
    tens, ones = divmod(number, 10)
    return _NATIVE_TENS[tens] + _NATIVE_ONES[ones]


def counted(number: int) -> str:
    """The reading before a native counter: native up to 99, Sino-Korean from 100 on.

    >>> counted(99), counted(120)
    ('아흔아홉', '백이십')
    """
    return native(number) if number < 100 else sino(number)


def month(number: int) -> str:
    """The name of month 1 ... 12.

    >>> month(6), month(10), month(11)
    ('유월', '시월', '십일월')
    """
    return _IRREGULAR_MONTHS.get(number, sino(number) + "월")


def one_by_one(digits: str, zero: str = "영") -> str:
    """Digits said singly: with 영 after a decimal point, with 공 in a phone number.

    >>> one_by_one("05"), one_by_one("010", zero="공")
    ('영오', '공일공')
    """
    return "".join(DIGITS[int(digit)] for digit in digits).replace(DIGITS[0], zero)


def particle(word: str, pair: str) -> str:
    """The form of a particle that fits the final sound of a Hangul word.

    Pairs are written as in a dictionary; 로 also follows ㄹ.

    >>> particle("만 오천 원", "을(를)"), particle("퍼센트", "을(를)")
    ('을', '를')
    >>> particle("칠", "(으)로"), particle("육", "(으)로"), particle("이", "(으)로")
    ('로', '으로', '로')
    """
    final = (ord(word[-1]) - _FIRST_SYLLABLE) % _FINALS
    if pair == "(으)로":
        return "으로" if final not in (0, _RIEUL) else "로"
    return pair[0] if final else pair[2]
