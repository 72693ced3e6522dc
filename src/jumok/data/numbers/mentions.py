"""Whether a text may contain a number in words: what a sentence without numbers must not match."""

import re

_DIGITS = "일이삼사오육륙칠팔구"
_PLACES = "십백천만억"
_SINO = _DIGITS + _PLACES + "영공"
_NATIVE = (
    "(?:(?:열|스물|서른|마흔|쉰|예순|일흔|여든|아흔)?"
    "(?:한|두|세|석|서|네|넉|너|다섯|여섯|일곱|여덟|아홉)"
    "|열|스무|스물|서른|마흔|쉰|예순|일흔|여든|아흔)"
)
_UNITS = (
    "원|달러|유로|엔|년|월|일|시|분|초|주|층|호|동|번|번째|쪽|페이지|장|점|도|등|위|회|차|대|배|명|살|세|"
    "개|인|인분|개월|시간|달|퍼센트|프로|퍼|킬로|미터|그램|센티|밀리|리터|톤|평|인치|마리|권|잔|병|그릇|"
    "송이|켤레|벌|채|척|곡|편|줄|판|조각|컵|팀|골|가지|군데|끼|바퀴|걸음|차례|박|칸|과|호선|건|세기|학년|"
    "반|급|단계|단|화|부|막|포인트|분의|쌍|통|자루|그루|모금|방울|봉지|상자|박스|세트|알|방|스푼|입|마디|컷|탄"
)
_UNITS_OF_ONE_DIGIT = (  # in one word with the digit: 삼년, but not 이분 or 사과
    "원|년|월|분|초|주|층|호|등|위|회|차|편|화|점|시간|개월|퍼센트|프로|학년|인분|박|대|부"
)
_START = "(?<![가-힣])"
_MAY_BE_NUMBER = re.compile(
    "|".join(
        (
            f"[{_DIGITS}] ?[{_PLACES}]",
            f"{_START}[{_PLACES}] ?[{_DIGITS}{_PLACES}]",
            f"{_START}[{_SINO}]+ (?:{_UNITS})",
            f"{_START}[{_SINO}]{{2,}}(?:{_UNITS})",
            f"{_START}[{_PLACES}](?:원|달러|명|년|개월|번|살|시간|배|프로|퍼|킬로|미터|권|마리)",
            f"{_START}[십백천]점",
            f"{_START}[일삼사오육칠팔구](?:{_UNITS_OF_ONE_DIGIT})",
            f"{_START}이(?:년|월|등|위|회|개월|퍼센트|프로|층|학년|인분|박)",
            f"{_START}{_NATIVE} (?:{_UNITS})",
            f"{_START}(?!한){_NATIVE}(?:{_UNITS})",
            "[천백]만|[시유]월|번째",
            f"[{_SINO}] ?점 ?[{_SINO}]",
            f"[{_DIGITS}영공]{{3,}}",
        )
    )
)


def may_mention_number(text: str) -> bool:
    """Whether a text may contain a number in words; true of some texts that have none, too.

    >>> [may_mention_number(text) for text in ("세 시에 봐요", "이 영화만 봐요", "이만 가요")]
    [True, False, True]
    """
    return _MAY_BE_NUMBER.search(text) is not None
