"""The built-in `numbers` corpus: spoken Korean numbers -> written form, endless, exactly scored.

| kind     | spoken                                | written                        |
|----------|---------------------------------------|--------------------------------|
| cardinal | 합계는 삼십오만 육천칠백입니다        | 합계는 356,700입니다           |
| counter  | 학생 스물한 명이 왔어요               | 학생 21명이 왔어요             |
| unit     | 학교까지는 사십이 킬로미터예요        | 학교까지는 42km예요            |
| date     | 제 생일은 유월 육 일입니다            | 제 생일은 6월 6일입니다        |
| time     | 회의는 오후 세 시 반에 시작합니다     | 회의는 오후 3시 30분에 시작합니다 |
| phone    | 제 번호는 공일공 일이삼사 오육칠팔입니다 | 제 번호는 010-1234-5678입니다 |
| price    | 점심값으로 만 오천 원을 냈어요        | 점심값으로 15,000원을 냈어요   |
| decimal  | 금리는 삼 점 일사 퍼센트입니다        | 금리는 3.14%입니다             |
| ordinal  | 올해가 제이십삼 회 대회입니다         | 올해가 제23회 대회입니다       |
| pair     | 사과 세 개에 이천 원입니다            | 사과 3개에 2,000원입니다       |

The functions of `expressions` give the numbers of each kind; docs/numbers.md has all rules. A tenth
of the pairs are sentences of a grammar (`templates`), the others real ones (`carriers`): half of
them with number phrases between their words (`phrases`), the other half to be copied.

The splits are "train", "dev" and "test" (numbers and real sentences never seen in training),
"test_patterns" (patterns of the grammar never seen in training; see `splits`) and "test_sentences",
200 hand-written sentences.
"""

from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import NamedTuple

from jumok.data.numbers.carriers import hand_written, with_numbers, without_numbers
from jumok.data.numbers.expressions import (
    Expression,
    counter,
    date,
    decimal,
    draw,
    phone,
    price,
    time,
)
from jumok.data.numbers.splits import SPLITS, number_split
from jumok.data.numbers.templates import SentenceTemplate, Slot
from jumok.errors import DataError

__all__ = ["EXAMPLES", "SPLITS", "Sentence", "examples", "generate", "sentences"]

_WEIGHTS = {  # how often each kind is drawn: more where there is more to learn
    "cardinal": 5,
    "counter": 4,
    "unit": 3,
    "date": 4,
    "time": 4,
    "phone": 3,
    "price": 4,
    "decimal": 3,
    "ordinal": 2,
    "pair": 4,
}


HAND_WRITTEN = "test_sentences"
_TEMPLATES = 0.1  # parts of train, dev and test
_WITH_NUMBERS = 0.45


class Sentence(NamedTuple):
    """A template and the number expressions in its slots."""

    template: SentenceTemplate
    expressions: tuple[Expression, ...]

    @property
    def spoken(self) -> str:
        """The spoken sentence."""
        return self.template.spoken(self.expressions)

    @property
    def written(self) -> str:
        """The written sentence."""
        return self.template.written(self.expressions)


EXAMPLES = (
    Sentence(
        SentenceTemplate("date", "다음 대회는 {date:coming}에 열립니다"),
        (date(2026, 11, 22),),
    ),
    Sentence(
        SentenceTemplate("pair", "회의는 {date:day} {time}에 시작합니다"),
        (date(0, 10, 25), time("오후", 2, 30, half=True)),
    ),
    Sentence(
        SentenceTemplate("pair", "사과 {counter:개}에 {price}입니다"),
        (counter(32, "개"), price(41_700)),
    ),
    Sentence(
        SentenceTemplate("phone", "제 번호는 {phone}입니다"),
        (phone("010-1234-5091"),),
    ),
    Sentence(
        SentenceTemplate("decimal", "금리는 {decimal:퍼센트}까지 올랐습니다"),
        (decimal("3.4", "퍼센트"),),
    ),
)


def examples() -> list[tuple[str, str]]:
    """Five example sentences, whose numbers are not in training.

    >>> for spoken, written in examples():
    ...     print(spoken, "->", written)
    다음 대회는 이천이십육 년 십일월 이십이 일에 열립니다 -> 다음 대회는 2026년 11월 22일에 열립니다
    회의는 시월 이십오 일 오후 두 시 반에 시작합니다 -> 회의는 10월 25일 오후 2시 30분에 시작합니다
    사과 서른두 개에 사만 천칠백 원입니다 -> 사과 32개에 41,700원입니다
    제 번호는 공일공 일이삼사 오공구일입니다 -> 제 번호는 010-1234-5091입니다
    금리는 삼 점 사 퍼센트까지 올랐습니다 -> 금리는 3.4%까지 올랐습니다
    """
    return [(sentence.spoken, sentence.written) for sentence in EXAMPLES]


def generate(split: str, n: int, seed: int = 0) -> list[tuple[str, str]]:
    """The first `n` (spoken, written) pairs of a split with a seed, the same on every machine.

    Outside train all pairs are distinct. Raises InputError for an unknown split.

    >>> for spoken, written in generate("train", 2, seed=7):
    ...     print(spoken, "->", written)
    말이 여섯방까지 와? -> 말이 6방까지 와?
    영화 하나로 이천십구 년 유월 오 일만 주세요 -> 영화 하나로 2019년 6월 5일만 주세요
    """
    return list(islice(_pairs(split, seed), n))


def _pairs(split: str, seed: int) -> Iterator[tuple[str, str]]:
    """The pairs of a split: sentences of the grammar and real ones, nearly half to be copied."""
    if split == HAND_WRITTEN:
        yield from hand_written()
        return
    if split not in SPLITS:
        splits = (*SPLITS, HAND_WRITTEN)
        raise DataError(
            "data.unknown_split",
            "split must be one of {splits}, got {split!r}",
            splits=", ".join(splits),
            split=split,
        )
    templates = ((s.spoken, s.written) for s in sentences(split, seed))
    if split == "test_patterns":
        yield from templates
        return
    random = Random(f"jumok numbers {split} pairs {seed}")
    drawn: set[str] = set()
    while True:
        form = random.random()
        if form < _TEMPLATES:
            pair = next(templates)
        elif form < _TEMPLATES + _WITH_NUMBERS:
            pair = with_numbers(random, split)
        else:
            text = without_numbers(random, split)
            pair = text, text
        if split == "train":
            yield pair
        elif pair[0] not in drawn:
            drawn.add(pair[0])
            yield pair


def sentences(split: str, seed: int = 0) -> Iterator[Sentence]:
    """The endless sentences of the grammar in a split, with their templates and expressions.

    >>> sentence = next(sentences("test", seed=1))
    >>> sentence.template.text, [expression.value for expression in sentence.expressions]
    ('금리는 {decimal:퍼센트}까지 내렸어요', ['88.58'])
    """
    templates, numbers = SPLITS[split].templates, SPLITS[split].numbers
    random = Random(f"jumok numbers {split} {seed}")
    kinds = [kind for kind, weight in _WEIGHTS.items() for _ in range(weight)]
    drawn: set[str] = set()
    while True:
        template = random.choice(templates[random.choice(kinds)])
        sentence = Sentence(
            template, tuple(_draw(slot, random, numbers) for slot in template.slots)
        )
        if split == "train":
            yield sentence
        elif sentence.spoken not in drawn:
            drawn.add(sentence.spoken)
            yield sentence


def _draw(slot: Slot, random: Random, split: str) -> Expression:
    """A random number of a split for a slot."""
    while True:
        expression = draw(random, slot.kind, slot.detail)
        if number_split(expression) == split:
            return expression
