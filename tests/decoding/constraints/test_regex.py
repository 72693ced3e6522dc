"""Regular expressions against Python's: the same texts match, by example and at random."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumok.decoding.constraints.automaton import Automaton, utf8_ranges
from jumok.decoding.constraints.regex import compile_regex
from jumok.errors import InputError
from tests.errors import raises

PATTERNS = {
    "": ["", "a"],
    "가나다": ["가나다", "가나", "가나다라", ""],
    "a|b|": ["a", "b", "", "ab"],
    "(가|나)*다": ["다", "가나가다", "가나", "다다"],
    "a{2}": ["a", "aa", "aaa"],
    "a{2,}": ["a", "aa", "aaaaa"],
    "a{,2}": ["", "a", "aa", "aaa"],
    "a{0}b": ["b", "ab"],
    "(ab){1,2}?c": ["abc", "ababc", "abababc", "c"],
    "(a*)*b": ["b", "aaab", "a"],
    "(|a)+": ["", "aaa", "b"],
    ".+": ["가", "\n", "a\nb", "🙂"],
    "[가-힣]+": ["한글", "ㅎ", "힣", "가a"],
    "[^가-힣]": ["a", "가", "ㅎ", "🙂", "\n", "힤"],
    "[]a]+": ["]a]", "b"],
    "[^]a]": ["]", "b"],
    "[a-]": ["-", "a", "b"],
    "[-a]": ["-", "a", "b"],
    r"[\d\-x]+": ["1-x", "٣", "y"],
    r"\d+": ["123", "٣", "一", "x", "½"],
    r"\w+": ["한글_a1", "ㅋㅋ", "a b", "½", "é"],
    r"\W": [" ", "a", "…", "_"],
    r"\s*": [" \t\n\u3000", "a", ""],
    r"\S": ["a", " ", "🙂"],
    r"[^\s\S]": ["a", ""],
    r"[\w.]+@\w+\.(com|kr)": ["민수.kim@jumok.kr", "a@b", "@b.kr"],
    r"\x41\uac00\U0001f642": ["A가🙂", "A가"],
    r"\n\t\\\.\*\{\[\(": ["\n\t\\.*{[(", "nt"],
    r"[\n\]\\^]+": ["\n]\\^", "n"],
    "[^^]": ["^", "a"],
    "(?P<value>a)(?:b)": ["ab", "a"],
    "a]": ["a]", "a"],
    "}": ["}"],
    "[\u07ff-\U00010000]": ["\u07fe", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "𐀀", "𐀁"],
}

LETTERS = "ab가각🙂é\n"


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_same_as_python(pattern: str) -> None:
    machine = compile_regex(pattern)
    answers = {text: machine.matches(text) for text in PATTERNS[pattern]}
    assert answers == {text: bool(re.fullmatch(pattern, text)) for text in answers}


def test_examples_match_and_do_not_match() -> None:
    """A table of nothing but refusals would prove little."""
    answers = [bool(re.fullmatch(p, text)) for p, texts in PATTERNS.items() for text in texts]
    assert 30 < sum(answers) < len(answers) - 30


characters = st.sampled_from(LETTERS)
members = st.one_of(
    characters.map(re.escape),
    st.tuples(characters, characters).map(lambda ends: "-".join(map(re.escape, sorted(ends)))),
    st.sampled_from([r"\d", r"\w", r"\s", r"\W"]),
)
classes = st.tuples(st.sampled_from(["[", "[^"]), st.lists(members, min_size=1, max_size=3)).map(
    lambda parts: parts[0] + "".join(parts[1]) + "]"
)
atoms = st.one_of(characters.map(re.escape), classes, st.just("."))
patterns = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda sides: f"(?:{sides[0]}|{sides[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{,2}", "*?"])).map(
            lambda parts: f"({parts[0]}){parts[1]}"
        ),
    ),
    max_leaves=6,
)


@given(patterns, st.lists(st.text(LETTERS, max_size=6), min_size=1, max_size=8))
def test_the_same_as_python_at_random(pattern: str, texts: list[str]) -> None:
    machine = compile_regex(pattern)
    for text in texts:
        assert machine.matches(text) == bool(re.fullmatch(pattern, text)), (pattern, text)


@given(patterns, st.randoms(use_true_random=False))
def test_the_automaton_accepts_what_python_matches(pattern: str, rng: object) -> None:
    """A walk through the machine to an accepting state spells a text that Python matches too."""
    machine = compile_regex(pattern)
    text = some_match(machine)
    if text is not None:
        assert re.fullmatch(pattern, text)


def some_match(machine: Automaton) -> str | None:
    """The shortest match, the lowest bytes first; None when there is none."""
    found, waiting = {1: b""}, [1]
    for state in waiting:
        if machine.accepting[state]:
            return found[state].decode()  # every accepted sequence of bytes is valid UTF-8
        for value in range(256):
            after = machine.run(state, bytes([value]))
            if after and after not in found:
                found[after] = found[state] + bytes([value])
                waiting.append(after)
    return None


@given(st.integers(0, 0x10FFFF), st.integers(0, 0x10FFFF))
def test_ranges_of_utf8(first: int, last: int) -> None:
    """Every sequence spells as many characters as its ranges allow, and none twice."""
    sequences = list(utf8_ranges(first, last))
    counted = 0
    for sequence in sequences:
        size = 1
        for low, high in sequence:
            size *= high - low + 1
        counted += size
        for end in (0, 1):
            assert first <= ord(bytes(pair[end] for pair in sequence).decode()) <= last
    surrogates = len(range(max(first, 0xD800), min(last, 0xDFFF) + 1))
    assert counted == max(last - first + 1, 0) - surrogates


@pytest.mark.parametrize(
    ("pattern", "overrides"),
    [
        ("a)", "a ) without its ("),
        ("(a", "a ( without its )"),
        ("[a", "a [ without its ]"),
        ("[", "a [ without its ]"),
        ("[b-a]", "an empty range"),
        (r"[\w-z]", "an empty range"),
        ("*a", "nothing to repeat"),
        ("a|+", "nothing to repeat"),
        ("a**", "a repetition of a repetition"),
        ("a*+", "a repetition of a repetition"),
        ("a{3,2}", "3 to 2 times"),
        ("a{", "without a count such as"),
        ("a{}", "without a count such as"),
        ("a{%s}" % ("9" * 5000), "without a count such as"),
        ("a{0000003}", "without a count such as"),
        ("^a", "the anchor ^"),
        ("a$", "the anchor $"),
        (r"(a)\1", r"a \1"),
        (r"\bword", r"a \b"),
        ("a\\", "a \\ before"),
        (r"\xg1", "2 hexadecimal digits"),
        (r"\U00110000", "the largest is 10FFFF"),
        ("(?=a)", "not supported"),
        ("(?i)a", "not supported"),
        ("(" * 60 + ")" * 60, "groups inside each other"),
    ],
)
def test_refused(pattern: str, overrides: str) -> None:
    with pytest.raises(InputError) as caught:
        compile_regex(pattern)
    assert overrides in str(caught.value)
    assert "; " in str(caught.value)  # the advice


@pytest.mark.parametrize("pattern", ["((a{100}){100}){100}", "(a|b)*a(a|b){20}"])
def test_too_large(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first grows by repeating, the second doubles with every letter it must remember."""
    monkeypatch.setattr("jumok.decoding.constraints.automaton.MAX_STATES", 5_000)
    with raises(InputError, "constraint.too_many_states"):
        compile_regex(pattern)


@pytest.mark.parametrize("pattern", ["((){999999}){999999}a?", "((b{0}){999999}){999999}a?"])
def test_repetitions_of_the_empty_text(pattern: str) -> None:
    found = compile_regex(pattern)
    assert (found.matches(""), found.matches("a"), found.matches("b")) == (True, True, False)


def test_too_many_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few states, each with hundreds of ranges of letters to follow."""
    monkeypatch.setattr("jumok.decoding.constraints.automaton.MAX_EDGES", 300_000)
    with raises(InputError, "constraint.too_many_edges"):
        compile_regex(r"(\w*a){1,30}")
    assert compile_regex(r"(\w+ )*\w+").matches("한 단어씩")
