"""The numbers corpus: unique readings, disjoint splits, the same sentences on every machine."""

import re
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator
from difflib import Match, SequenceMatcher
from functools import cache
from hashlib import sha256
from itertools import islice, pairwise, product
from random import Random

import pytest

from jumok.data.numbers import EXAMPLES, SPLITS, Sentence, examples, generate, sentences
from jumok.data.numbers.carriers import carriers, with_numbers, without_numbers
from jumok.data.numbers.expressions import counter, date, ordinal, time
from jumok.data.numbers.mentions import may_mention_number
from jumok.data.numbers.phrases import STAYING, number_phrase
from jumok.data.numbers.splits import number_split
from jumok.data.numbers.templates import FAMILIES
from jumok.errors import InputError
from tests.data.numbers.parser import KINDS, all_readings
from tests.errors import raises

TEMPLATES = [template.text for family in FAMILIES for row in family.templates() for template in row]

# The parts of a spoken number and its unit that are written otherwise.
NUMBER_WORD = re.compile(
    "[영공일이삼사오육칠팔구십백천만억점대분의반첫한두세네다섯여덟곱홉아열스물서른마흔쉰예순든무유시"
    "월년킬로미터그램센티퍼트 ]*"
)


@cache
def coming(split: str) -> tuple[Iterator[Sentence], list[Sentence]]:
    """The sentences of a split, and those of them that are drawn already."""
    return sentences(split, seed=11), []


def many(split: str, n: int) -> list[Sentence]:
    """The first n sentences of a split, drawn once for all tests."""
    others, drawn = coming(split)
    drawn.extend(islice(others, max(n - len(drawn), 0)))
    return drawn[:n]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("split", "n"), [("train", 4_000), ("dev", 1_000), ("test", 1_000), ("test_patterns", 2_000)]
)
def test_every_sentence_has_one_reading_and_it_is_the_written_form(split: str, n: int) -> None:
    for sentence in islice(sentences(split, seed=7), n):
        assert all_readings(sentence.spoken, TEMPLATES) == [sentence.written]


def test_every_number_of_small_kinds_is_read_correctly() -> None:
    every = [counter(n, "명") for n in range(1, 1_200)]
    every += [ordinal(n, unit) for n in range(1, 100) for unit in ("번째", "회")]
    every += [date(0, m, d) for m in range(1, 13) for d in range(32)]
    every += [date(y, m) for y in range(1950, 2036) for m in range(13)]
    every += [
        time(part, hour, minute, half=half)
        for part, hour, minute in product(("", "오전", "밤"), range(1, 13), range(60))
        for half in ((False, True) if minute == 30 else (False,))
    ]
    units = {"counter": ["명"], "ordinal": ["번째", "회"]}
    for expression in every:
        spoken = expression.spoken
        readings = {
            written
            for unit in units.get(expression.kind, [""])
            for end, written in KINDS[expression.kind](spoken, 0, unit)
            if end == len(spoken)
        }
        assert readings == {expression.written}


def test_the_proof_finds_two_readings_where_there_are_two() -> None:
    assert all_readings("십이라고 썼다", ["{cardinal}(이)라고 썼다"]) == [
        "10이라고 썼다",
        "12라고 썼다",
    ]
    doubtful = ["{cardinal} 썼다", "{cardinal}을(를) 썼다", "{cardinal}이 썼다"]
    assert all_readings("십이 썼다", doubtful) == ["12 썼다", "10이 썼다"]


@pytest.mark.slow
@pytest.mark.parametrize("split", ["dev", "test"])
def test_held_out_numbers_are_in_no_other_split(split: str) -> None:
    held_out = {e[:2] for sentence in many(split, 2_000) for e in sentence.expressions}
    seen = {e[:2] for sentence in many("train", 20_000) for e in sentence.expressions}
    other = "test" if split == "dev" else "dev"
    others = {e[:2] for sentence in many(other, 2_000) for e in sentence.expressions}
    assert not held_out & (seen | others)
    assert all(number_split(e) == split for s in many(split, 500) for e in s.expressions)


def test_one_number_in_ten_is_held_out_but_no_basic_number_word() -> None:
    splits = Counter(number_split(counter(number, "개")) for number in range(1, 9_999))
    assert 0.04 < splits["dev"] / 9_998 < 0.06
    assert 0.04 < splits["test"] / 9_998 < 0.06
    overrides = [*range(1, 11), *range(20, 100, 10), *range(100, 1_000, 100)]
    assert {number_split(counter(number, "개")) for number in overrides} == {"train"}


def test_held_out_templates_combine_openings_and_endings_of_training() -> None:
    seen = {template for templates in SPLITS["train"].templates.values() for template in templates}
    held_out = {c for templates in SPLITS["test_patterns"].templates.values() for c in templates}
    assert len(seen) + len(held_out) == len(TEMPLATES) == len(set(TEMPLATES))
    assert not seen & held_out
    assert len(held_out) > 100
    assert SPLITS["train"].templates.keys() == SPLITS["test_patterns"].templates.keys()
    for split in ("dev", "test"):
        assert SPLITS[split].templates is SPLITS["train"].templates
    openings = {template.opening for template in seen}
    endings = {template.text.rpartition("}")[2] for template in seen}
    for template in held_out:
        assert template.opening in openings
        assert template.text.rpartition("}")[2] in endings


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_half_of_the_sentences_are_copied_and_all_end_as_they_were_said(split: str) -> None:
    pairs = generate(split, 1_000, seed=2)
    copied = [spoken for spoken, written in pairs if spoken == written]
    assert 0.35 < len(copied) / len(pairs) < 0.5  # less outside train, whose rows are distinct
    assert max(map(len, copied)) > 100
    for spoken, written in pairs:
        assert spoken == written or any(character.isdigit() for character in written)


def test_real_sentences_mention_no_number_and_belong_to_one_split() -> None:
    lines = {split: set(carriers(split)) for split in ("train", "dev", "test")}
    assert sum(map(len, lines.values())) == len(set().union(*lines.values())) > 13_000
    assert min(len(found) for found in lines.values()) > 500
    for line in set().union(*lines.values()):
        assert not may_mention_number(line)
        assert unicodedata.is_normalized("NFC", line)


def test_real_sentences_are_unchanged_around_the_numbers() -> None:
    """What is not a number phrase is in both forms, in the same order."""
    random = Random(5)
    for _ in range(500):
        spoken, written = with_numbers(random, "train")
        blocks = SequenceMatcher(None, spoken, written, autojunk=False).get_matching_blocks()
        changed = [spoken[a.a + a.size : b.a] for a, b in pairwise([Match(0, 0, 0), *blocks])]
        assert spoken != written
        for text in filter(None, changed):
            assert NUMBER_WORD.fullmatch(text), (spoken, written)


def test_what_is_copied_has_runs_of_a_mark_and_words_that_begin_with_a_numeral() -> None:
    """What was copied wrongly most often: the length of a run, and words such as 세포."""
    random = Random(4)
    texts = [without_numbers(random, "train") for _ in range(2_000)]
    assert not any(may_mention_number(text) for text in texts if text in carriers("train"))
    runs = [run for text in texts for run in re.findall(r"(([.ㅋㅎㅠㅜ~!?])\2{4,})", text)]
    assert len({len(run) for run, _ in runs}) > 8
    known = {word for line in carriers("train") for word in line.split()} | set(STAYING)
    unknown = {word for text in texts for word in text.split() if word not in known}
    assert sum(word.startswith(("세", "두", "네", "첫", "오", "팔")) for word in unknown) > 20


def test_number_phrases_are_read_by_the_second_parser() -> None:
    """Phrases in standard spelling have the written form that the other implementation finds."""
    random = Random(3)
    read = 0
    for _ in range(1_000):
        spoken, written = number_phrase(random, "test", last=False)
        for template in ("{price}", "{time}", "{date}", "{phone}", "{cardinal}"):
            for tail in ("을(를)", "에", "까지", "부터"):
                readings = all_readings(spoken, [template + tail])
                if len(readings) == 1:
                    assert readings == [written]
                    read += 1
    assert read > 30


def test_phrases_that_stay_and_hand_written_sentences() -> None:
    assert len(STAYING) == len(set(STAYING)) > 300
    pairs = generate("test_sentences", 1_000)
    assert pairs == generate("test_sentences", 1_000, seed=9)
    assert len(dict(pairs)) == 200
    assert sum(source == target for source, target in pairs) == 100
    everything = {text for split in ("train", "dev", "test") for text in carriers(split)}
    assert not everything & {source for source, _ in pairs}


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("세 시에 봐요", True),
        ("삼천원이에요", True),
        ("열두번 봤다", True),
        ("오월의 신부", True),
        ("삼 점 일사", True),
        ("첫번째", True),
        ("이 영화만 봐요", False),
        ("일이 많아서 사과를 못 샀다", False),
        ("백화점", False),
        ("3시 30분에 5개", False),
    ],
)
def test_what_may_be_a_number(text: str, may: bool) -> None:
    assert may_mention_number(text) == may


@pytest.mark.parametrize("split", SPLITS)
def test_every_kind_is_in_every_split(split: str) -> None:
    kinds = Counter(sentence.template.kind for sentence in many(split, 3_000))
    assert len(kinds) == 10
    assert min(kinds.values()) > 100


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_sentences_are_short_and_extend_shorter_lists(split: str) -> None:
    pairs = generate(split, 3_000, seed=5)
    assert pairs[:50] == generate(split, 50, seed=5)
    assert pairs != generate(split, 3_000, seed=6)
    assert max(len(spoken) for spoken, _ in pairs) <= (42 if split == "test_patterns" else 260)
    if split != "train":
        assert len({spoken for spoken, _ in pairs}) == len(pairs)


@pytest.mark.parametrize(
    ("split", "checksum"),
    [
        ("train", "7b7471e5a1eff1b72463f006ca55192ba1d30aaebfbaa37ba1453f166f69e0af"),
        ("dev", "59d16c0bc1c6972d1603e6e4e697bc292a1b329c4021f26ac5bcaae7542e2253"),
        ("test", "15f9b51ace8593539d7dd9d26726593365ab929f4e8bca5c77ff1729c93c9eba"),
        ("test_patterns", "69dbeb47ee575de371629500352b7d7b933f22795498ed51ca1efa9027b6c8f9"),
    ],
)
def test_sentences_never_change(split: str, checksum: str) -> None:
    """Scores of different versions are comparable only on the same sentences."""
    assert sha256(repr(generate(split, 1_000, 7)).encode()).hexdigest() == checksum


def test_the_same_sentences_in_every_process() -> None:
    script = (
        "from hashlib import sha256; from jumok.data.numbers import generate;"
        "print(sha256(repr(generate('test', 300, 3)).encode()).hexdigest())"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": "src", "PYTHONHASHSEED": "77", "PYTHONUTF8": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    expected = sha256(repr(generate("test", 300, 3)).encode()).hexdigest()
    assert run.stdout.strip() == expected


def test_examples_are_five_known_patterns_with_unseen_numbers() -> None:
    assert len(EXAMPLES) == 5
    for sentence, (spoken, written) in zip(EXAMPLES, examples(), strict=True):
        assert sentence.template in SPLITS["train"].templates[sentence.template.kind]
        assert {number_split(expression) for expression in sentence.expressions} == {"test"}
        assert all_readings(spoken, TEMPLATES) == [written]


def test_an_unknown_split_is_an_error() -> None:
    with raises(InputError, "data.unknown_split"):
        generate("valid", 1)
