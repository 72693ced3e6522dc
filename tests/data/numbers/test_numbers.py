"""The numbers corpus: unique readings, disjoint splits, the same sentences on every machine."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from itertools import islice, product

import pytest

from jumok.data.numbers import EXAMPLES, SPLITS, Sentence, examples, generate, sentences
from jumok.data.numbers.expressions import counter, date, ordinal, time
from jumok.data.numbers.splits import number_split
from jumok.data.numbers.templates import FAMILIES
from jumok.errors import InputError
from tests.data.numbers.parser import KINDS, all_readings
from tests.errors import raises

TEMPLATES = [template.text for family in FAMILIES for row in family.templates() for template in row]


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
    ("split", "n"), [("train", 20_000), ("dev", 4_000), ("test", 4_000), ("test_patterns", 8_000)]
)
def test_every_sentence_has_one_reading_and_it_is_the_written_form(split: str, n: int) -> None:
    for spoken, written in generate(split, n, seed=7):
        assert all_readings(spoken, TEMPLATES) == [written]


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
    assert max(len(spoken) for spoken, _ in pairs) <= 42
    if split != "train":
        assert len({spoken for spoken, _ in pairs}) == len(pairs)


@pytest.mark.parametrize(
    ("split", "checksum"),
    [
        ("train", "a7b1dc864be342970b96eaad6aa5407700265b69eb6aa485bbc246af452151cf"),
        ("dev", "b5309e05edfe9df9bad4ce7ff10235277f89f5b8b2e6fb0c332eb5b5d42a6c06"),
        ("test", "850e01ea5e668fcd26a5dbd0c73615935aab284f367cef90e84dd3799769fcdc"),
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
