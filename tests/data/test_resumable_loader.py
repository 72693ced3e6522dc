"""The loader's place: two numbers from which everything that follows comes again."""

from itertools import chain, islice

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jumok.data.packing import length_batches
from jumok.data.resumable_loader import LoaderState, ResumableLoader
from jumok.seeding import derive_seed, permutation


def loader_of(
    sizes: list[int], position: LoaderState | None = None
) -> ResumableLoader[tuple[int, int]]:
    """An epoch as long as its number says; each batch has its epoch and index."""

    def epoch(number: int) -> list[tuple[int, int]]:
        return [(number, index) for index in range(sizes[number % len(sizes)])]

    return ResumableLoader(epoch, position)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(0, 20))
def test_any_position_resumes_with_the_same_batches(sizes: list[int], read: int) -> None:
    loader = loader_of(sizes)
    before = list(islice(loader, read))
    resumed = loader_of(sizes, LoaderState(loader.state.epoch, loader.state.batch))
    assert resumed.epoch_progress == loader.epoch_progress
    assert before + list(islice(resumed, 20)) == list(islice(loader_of(sizes), read + 20))


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_an_epoch_is_complete_before_the_next_one(sizes: list[int]) -> None:
    loader = loader_of(sizes)
    seen = list(islice(loader, sum(sizes)))
    assert seen == [(n, index) for n, size in enumerate(sizes) for index in range(size)]
    assert loader.state == LoaderState(len(sizes), 0)
    assert loader.epoch_progress == len(sizes)


def test_epochs_done_is_a_fraction() -> None:
    loader = loader_of([4])
    assert [loader.epoch_progress for _ in islice(loader, 5)] == [0.25, 0.5, 0.75, 1.0, 1.25]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.integers(0, 30))
def test_every_example_occurs_once_in_a_resumed_epoch(lengths: list[int], stop: int) -> None:
    table = np.array(lengths)

    def epoch(number: int) -> list[list[int]]:
        order = permutation(len(table), 0, number)
        rng = np.random.default_rng(derive_seed(0, "batches", number))
        return [batch.tolist() for batch in length_batches(table, order, 60, rng)]

    n = len(epoch(0))
    loader = ResumableLoader(epoch)
    first = list(islice(loader, stop % n))
    rest = list(islice(ResumableLoader(epoch, loader.state), n - stop % n))
    assert sorted(chain.from_iterable(first + rest)) == list(range(len(table)))
