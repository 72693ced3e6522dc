"""The built-in `note` corpus: short Korean sentences and their English translation, generated.

A grammar small enough for a model of 50,000 weights to learn in a minute, with sentences of
unequal length and words in different orders. The course uses the model trained on it.

| Korean                       | English                       |
|------------------------------|-------------------------------|
| 겨울은 추워요.               | Winter is cold.               |
| 감기 조심하세요.             | Watch out for colds.          |
| 나는 집으로 재빠르게 간다.   | I go home quickly.            |
| 시간은 화살처럼 날아간다.    | Time flies like an arrow.     |
| 이 영화 정말 재미있어요.     | This movie is really fun.     |
| 겨울이 정말 좋아요.          | I really like winter.         |
"""

from collections.abc import Iterator
from hashlib import sha256
from itertools import product
from random import Random

from jumok.errors import DataError

SPLITS = ("train", "dev", "test")

_ADVERBS = {"": "", "너무 ": "too ", "정말 ": "really ", "매우 ": "very ", "조금 ": "a little "}
_TOPICS = {
    "겨울은": "Winter",
    "여름은": "Summer",
    "봄은": "Spring",
    "가을은": "Autumn",
    "바다는": "The sea",
    "밤은": "The night",
    "산은": "The mountain",
    "아침은": "The morning",
}
_QUALITIES = {
    "추워요": "cold",
    "더워요": "hot",
    "따뜻해요": "warm",
    "시원해요": "cool",
    "길어요": "long",
    "짧아요": "short",
    "조용해요": "quiet",
    "예뻐요": "pretty",
}
_DANGERS = {
    "감기": "colds",
    "불": "fire",
    "차": "cars",
    "개": "dogs",
    "비": "rain",
    "바람": "wind",
    "더위": "the heat",
    "추위": "the cold",
}
_PERSONS = {"나는": "I", "너는": "You", "우리는": "We", "그들은": "They"}
_PLACES = {
    "집으로": "home",
    "학교로": "to school",
    "산으로": "to the mountain",
    "바다로": "to the sea",
    "숲으로": "to the forest",
}
_MANNERS = {
    "재빠르게": "quickly",
    "천천히": "slowly",
    "조용히": "quietly",
    "함께": "together",
    "다시": "again",
}
_MOVES = {"간다": "go", "달린다": "run", "걷는다": "walk", "돌아간다": "return"}
_THINGS = {"화살": "an arrow", "새": "a bird", "바람": "the wind", "물": "water", "구름": "a cloud"}
_SUBJECTS = {"시간은": "Time", "하루는": "A day", "봄은": "Spring", "세월은": "Life"}
_FLIGHTS = {"날아간다": "flies", "흘러간다": "flows", "지나간다": "passes"}
_WORKS = {"영화": "movie", "책": "book", "노래": "song", "이야기": "story", "그림": "picture"}
_OPINIONS = {
    "재미있어요": "fun",
    "지루해요": "boring",
    "슬퍼요": "sad",
    "좋아요": "good",
    "짧아요": "short",
}
_LIKED = {
    "겨울이": "winter",
    "여름이": "summer",
    "봄이": "spring",
    "가을이": "autumn",
    "바다가": "the sea",
    "밤이": "the night",
    "산이": "the mountain",
    "아침이": "the morning",
    "감기가": "colds",
    "비가": "rain",
    "바람이": "wind",
    "이 영화가": "this movie",
    "이 노래가": "this song",
}
_FEELINGS = {"좋아요": "like", "싫어요": "hate"}
_DEGREES = {"": "", "정말 ": "really "}
_DAYS = {"기나긴": "long", "추운": "cold", "더운": "hot", "조용한": "quiet"}


def sentences() -> list[list[tuple[str, str]]]:
    """Every Korean sentence with its translation, all distinct, one list for each pattern."""
    return [
        [
            (f"{topic} {adverb}{korean}.", f"{subject} is {degree}{english}.")
            for (topic, subject), (adverb, degree), (korean, english) in _combine(
                _TOPICS, _ADVERBS, _QUALITIES
            )
        ],
        [
            (f"{danger} {adverb}조심하세요.", f"{degree}watch out for {english}.".capitalize())
            for (danger, english), (adverb, degree) in _combine(_DANGERS, _DEGREES)
        ],
        [
            (f"{person} {place} {manner} {move}.", f"{who} {verb} {where} {how}.")
            for (person, who), (place, where), (manner, how), (move, verb) in _combine(
                _PERSONS, _PLACES, _MANNERS, _MOVES
            )
        ],
        [
            (f"{subject} {thing}처럼 {flight}.", f"{what} {verb} like {like}.")
            for (subject, what), (thing, like), (flight, verb) in _combine(
                _SUBJECTS, _THINGS, _FLIGHTS
            )
        ],
        [
            (f"이 {work} {adverb}{korean}.", f"This {what} is {degree}{english}.")
            for (work, what), (adverb, degree), (korean, english) in _combine(
                _WORKS, _ADVERBS, _OPINIONS
            )
        ],
        [
            (
                f"{topic} {adverb}{korean} 날들의 연속이었습니다.",
                f"{subject} was a series of {degree}{english} days.",
            )
            for (topic, subject), (adverb, degree), (korean, english) in _combine(
                _TOPICS, _ADVERBS, _DAYS
            )
        ],
        [
            (f"{liked} {adverb}{korean}.", f"I {degree}{verb} {english}.")
            for (liked, english), (adverb, degree), (korean, verb) in _combine(
                _LIKED, _DEGREES, _FEELINGS
            )
        ],
    ]


def generate(split: str, n: int, seed: int = 0) -> list[tuple[str, str]]:
    """`n` (Korean, English) pairs of a split; in train they repeat, elsewhere all are distinct.

    In train every pattern is equally frequent. One sentence in ten belongs to dev, one to test.
    Raises InputError for an unknown split.

    >>> generate("test", 1)
    [('가을은 조금 시원해요.', 'Autumn is a little cool.')]
    """
    if split not in SPLITS:
        raise DataError(
            "data.unknown_split",
            "split must be one of {splits}, got {split!r}",
            splits=", ".join(SPLITS),
            split=split,
        )
    rng = Random(f"jumok note {split} {seed}")
    patterns = [[pair for pair in pairs if _split(pair[0]) == split] for pairs in sentences()]
    if split == "train":
        return [rng.choice(rng.choice(patterns)) for _ in range(n)]
    distinct = [pair for pairs in patterns for pair in pairs]
    return rng.sample(distinct, k=min(n, len(distinct)))


def _split(korean: str) -> str:
    part = int.from_bytes(sha256(korean.encode()).digest()[:8], "big") % 10
    return {0: "dev", 1: "test"}.get(part, "train")


def _combine(*choices: dict[str, str]) -> Iterator[tuple[tuple[str, str], ...]]:
    """Every combination of one (Korean, English) item per dictionary."""
    return product(*(choice.items() for choice in choices))
