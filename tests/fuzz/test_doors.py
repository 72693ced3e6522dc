"""Damaged files at every door: an answer or one sentence, in time; and what was found before.

The same changes as `python -m benchmarks.trust.fuzz` makes by the million, a few hundred of them.
"""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.trust.fuzz import corpus, fault_of, input_of, seeds_of
from benchmarks.trust.fuzz_doors import DOORS, Door
from benchmarks.trust.fuzz_mutations import Files
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
KEPT = [(name, i) for name in DOORS for i in range(len(corpus(name)))]


@pytest.mark.parametrize("door", DOORS.values(), ids=lambda door: door.name)
def test_a_door_answers_or_says_a_sentence(door: Door) -> None:
    seeds = seeds_of(door)

    @settings(max_examples=SLOW.get(door.name, 60))
    @given(number=st.integers(0, 2**40))
    def enter(number: int) -> None:
        assert fault_of(door, input_of(door, seeds, number)) is None

    enter()


@pytest.mark.parametrize(("name", "place"), KEPT, ids=[f"{name}-{i}" for name, i in KEPT])
def test_what_was_found_once_is_a_fault_no_more(name: str, place: int) -> None:
    door, files = DOORS[name], corpus(name)[place]
    begin = time.process_time()
    assert fault_of(door, files) is None
    assert time.process_time() - begin < 5 * door.seconds  # on a machine that also counts lines


@pytest.mark.parametrize("door", DOORS.values(), ids=lambda door: door.name)
def test_a_valid_file_gets_in(door: Door) -> None:
    """Else the changes of it would be stopped by the first check, and prove little."""
    answered = 0
    for files in door.seeds():
        try:
            door.enter(files)
            answered += 1
        except JumokError:
            continue
    assert answered


def test_a_foreign_error_is_seen() -> None:
    def enter(files: Files) -> object:
        raise LookupError(files)

    door = Door("broken", list, enter, 1)
    assert "foreign: LookupError at test_doors.py" in str(fault_of(door, {"a": b""}))


def test_the_same_number_is_the_same_input() -> None:
    door = DOORS["header"]
    assert input_of(door, door.seeds(), 7) == input_of(door, door.seeds(), 7)
    assert input_of(door, door.seeds(), 7) != input_of(door, door.seeds(), 8)
