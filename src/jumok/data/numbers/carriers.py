"""Real sentences: with number phrases between their words, or as they are, to be copied.

No sentence of `carriers.txt.xz` mentions a number in words; docs/data.md has sources and licences.
A hash of each decides whether it belongs to train, dev or test.
"""

import lzma
from functools import cache
from hashlib import sha256
from importlib import resources
from random import Random

from jumok.data.numbers.mentions import may_mention_number
from jumok.data.numbers.phrases import LISTS, STAYING, number_phrase

_N_PARTS = 20  # one in 20 to dev, one to test, the rest to train
_MOST_CHARACTERS = 160  # of sentences that are put together
_RARE = (  # the first and last code point: Hangul, Hanja, emoji, Latin, full width, symbols, jamo
    *[(0xAC00, 0xD7A3)] * 4,
    *[(0x4E00, 0x9FFF)] * 3,
    (0x1F300, 0x1F64F),
    (0xC0, 0x17F),
    (0xFF01, 0xFF5E),
    (0x2190, 0x26FF),
    (0x3131, 0x3163),
)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MARKS = "...ㅋㅋㅎㅠㅜ~~!!?;^,ㅡ"
_ENDS = ("", "", ".", ".", "!", "?", " ㅋㅋ", "~", "..", ",")
_NUMBER_SYLLABLES = set("영공일이삼사오육칠팔구십백천만억")


@cache
def carriers(split: str) -> tuple[str, ...]:
    """The sentences of train, dev or test."""
    data = resources.files("jumok.data.numbers").joinpath("carriers.txt.xz").read_bytes()
    lines = lzma.decompress(data).decode().splitlines()
    return tuple(line for line in lines if _split(line) == split)


def _split(line: str) -> str:
    part = sha256(line.encode()).digest()[0] % _N_PARTS
    return {0: "dev", 1: "test"}.get(part, "train")


def hand_written() -> list[tuple[str, str]]:
    """The split "test_sentences": 100 sentences with numbers and 100 without, from no generator.

    >>> hand_written()[-1][0]
    '줄거리는 뻔한데 배우들 덕분에 끝까지 봤네요 ㅎㅎ'
    """
    text = resources.files("jumok.data.numbers").joinpath("sentences.tsv").read_text("utf-8")
    rows = (line.split("\t") for line in text.splitlines()[1:])
    return [(source, target) for source, target in rows]


def with_numbers(random: Random, split: str) -> tuple[str, str]:
    """A sentence with one or two number phrases, spoken and written."""
    words = _words(random, split)
    for likely, word in ((0.15, _odd_word), (0.1, _numeral_word), (0.3, _staying)):
        if random.random() < likely:
            words.insert(random.randint(0, len(words)), word(random))
    gaps = [
        gap
        for gap in range(len(words) + 1)
        # "이 십 분" has two readings, and 시 before 반 has another one
        if not (gap and set(words[gap - 1]) <= _NUMBER_SYLLABLES)
        and not (gap < len(words) and words[gap].startswith("반"))
    ] or [len(words)]
    if random.random() < 0.2:
        gaps = gaps[-1:]
    chosen = set(random.sample(gaps, min(random.choice((1, 1, 2, 2, 3)), len(gaps))))
    spoken, written = [], []
    for gap in range(len(words) + 1):
        if gap in chosen:
            last = gap == len(words)
            phrase = number_phrase(random, split, last=last)
            mark = random.choice(_ENDS) if last else "," if random.random() < 0.05 else ""
            spoken.append(phrase[0] + mark)
            written.append(phrase[1] + mark)
        spoken += words[gap : gap + 1]
        written += words[gap : gap + 1]
    return " ".join(spoken), " ".join(written)


def without_numbers(random: Random, split: str) -> str:
    """A sentence to copy, in one of three repeating itself, where a place is hard to find again."""
    text = _to_copy(random, split)
    if random.random() < 0.3:
        repeated = _repeating(random, text)
        if not may_mention_number(repeated):
            return repeated
    return text


def _repeating(random: Random, text: str) -> str:
    """The text with a run of a mark, or with some characters in a row repeated: ....., 초키초키."""
    if random.random() < 0.4 and len(text) < _MOST_CHARACTERS:
        ends = [place for place, character in enumerate(f"{text} ") if character == " "]
        place = random.choice((len(text), random.choice(ends)))
        run = random.choice(_MARKS) * random.randint(2, random.choice((4, 7, 15)))
        return text[:place] + run + text[place:]
    length = min(random.choice((1, 1, 1, 2, 2, 3, 4, 8)), len(text))
    start = random.randint(0, len(text) - length)
    span = text[start : start + length]
    if span[0] == span[-1] == " ":  # no text has two spaces in a row
        return text
    most = max(2, min(20 // length, _MOST_CHARACTERS - len(text)))
    return text[:start] + span * random.randint(2, most) + text[start + length :]


def _to_copy(random: Random, split: str) -> str:
    """A sentence as it is, with phrases that stay, with odd words, or several."""
    form = random.random()
    if form < 0.45:
        return random.choice(carriers(split))
    if form < 0.55:
        text = random.choice(carriers(split))
        while len(text) < _MOST_CHARACTERS and random.random() < 0.7:
            text += " " + random.choice(carriers(split))
        return text[:_MOST_CHARACTERS].rstrip()
    words = _words(random, split)
    if form < 0.8:
        words.insert(random.randint(0, len(words)), _staying(random))
    for _ in range(random.randint(1, 3) if form > 0.8 else random.randint(0, 1)):
        words.insert(random.randint(0, len(words)), _odd_word(random))
    if random.random() < 0.4:
        place = random.randint(0, len(words))
        with_numeral = [*words[:place], random.choice(LISTS["numerals"]), *words[place:]]
        if not may_mention_number(" ".join([*with_numeral, ""])):
            return " ".join(with_numeral)
    return " ".join(words)


def _words(random: Random, split: str) -> list[str]:
    """The words of a short sentence, or some in a row."""
    words = random.choice(carriers(split)).split(" ")
    if random.random() < 0.5:
        start = random.randint(0, max(0, len(words) - 2))
        words = words[start : start + random.randint(1, 6)]
    while sum(map(len, words)) > 60 and len(words) > 1:
        words = words[: len(words) // 2]
    return words


def _staying(random: Random) -> str:
    return random.choice(STAYING)


@cache
def _real_numeral_words() -> list[list[str]]:
    """The words of the sentences for training that begin with a numeral, by numerals."""
    words = sorted({word for line in carriers("train") for word in line.split(" ")})
    lists = ([w for w in words if len(w) > 1 and w.startswith(n)] for n in LISTS["numerals"])
    return [found for each in lists if (found := list(filter(_is_no_number, each)))]


def _is_no_number(word: str) -> bool:
    return not may_mention_number(f"{word} 개")


def _numeral_word(random: Random) -> str:
    """A real word that begins with a numeral, or a numeral and a word: 세포, 두통, 오바."""
    if random.random() < 0.5:
        return random.choice(random.choice(_real_numeral_words()))
    while True:
        word = random.choice(random.choice(carriers("train")).split(" "))
        word = random.choice(LISTS["numerals"]) + word[random.randint(0, 1) :]
        if _is_no_number(word):
            return word


def _odd_word(random: Random) -> str:
    """Latin, digits, rare syllables, repeated characters, symbols."""
    form = random.random()
    if form < 0.2:
        return _numeral_word(random)
    if form < 0.35:
        return random.choice(LISTS["odd_words"])
    if form < 0.6:
        first, last = random.choice(_RARE)
        return "".join(chr(random.randint(first, last)) for _ in range(random.randint(1, 4)))
    if form < 0.7:
        return random.choice("ㅋㅎㅠㅜ!.?~;ab") * random.randint(2, 12)
    if form < 0.8:
        word = "".join(random.choice(_LETTERS) for _ in range(random.randint(1, 8)))
        return random.choice((word, word.capitalize(), word.upper()))
    number = str(random.randint(0, 10 ** random.randint(1, 5)))
    if random.random() < 0.4:  # 1천200명, 2만4천건, 5천만원: digits and words together stay
        places = random.choice(("천", "만", "억", "천만", "조", "만 천", "억 만", "만 천", "백"))
        number = "".join(f"{random.randint(1, 999)}{place}" for place in places.split())
        number += random.choice(("", "", str(random.randint(1, 999))))
    return number + random.choice(("", "", *LISTS["after_digits"]))
