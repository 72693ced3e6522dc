"""Damaged files at every target: an answer or one sentence, in time; and what was found before.

The same changes as `python -m benchmarks.trust.fuzz` makes by the million, a few hundred of them.
"""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.trust.fuzz import corpus, find_fault, make_input, seed_inputs
from benchmarks.trust.fuzz_mutations import Files
from benchmarks.trust.fuzz_targets import TARGETS, FuzzTarget
from jumok.errors import JumokError

SLOW = {
    "figure": 6,
    "command": 6,
    "run": 20,
    "traced": 10,
    "text": 20,
    "tokenizer": 40,
    "pattern": 20,
}
KEPT = [(name, i) for name in TARGETS for i in range(len(corpus(name)))]


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_a_target_returns_or_raises_one_sentence(target: FuzzTarget) -> None:
    seeds = seed_inputs(target)

    @settings(max_examples=SLOW.get(target.name, 60))
    @given(number=st.integers(0, 2**40))
    def enter(number: int) -> None:
        assert find_fault(target, make_input(target, seeds, number)) is None

    enter()


@pytest.mark.parametrize(("name", "location"), KEPT, ids=[f"{name}-{i}" for name, i in KEPT])
def test_inputs_of_fixed_faults_are_handled(name: str, location: int) -> None:
    target, files = TARGETS[name], corpus(name)[location]
    begin = time.process_time()
    assert find_fault(target, files) is None
    assert time.process_time() - begin < 5 * target.seconds  # on a machine that also counts lines


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_a_valid_file_is_accepted(target: FuzzTarget) -> None:
    """Else the changes of it would be stopped by the first check, and prove little."""
    answered = 0
    for files in target.seeds():
        try:
            target.run(files)
            answered += 1
        except JumokError:
            continue
    assert answered


def test_an_unexpected_exception_is_a_fault() -> None:
    def enter(files: Files) -> object:
        raise LookupError(files)

    target = FuzzTarget("broken", list, enter, 1)
    assert "foreign: LookupError at test_targets.py" in str(find_fault(target, {"a": b""}))


def test_the_same_number_is_the_same_input() -> None:
    target = TARGETS["header"]
    assert make_input(target, target.seeds(), 7) == make_input(target, target.seeds(), 7)
    assert make_input(target, target.seeds(), 7) != make_input(target, target.seeds(), 8)
