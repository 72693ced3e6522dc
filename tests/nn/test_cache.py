"""A cache returns what was appended, in order, and raises when it is full."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from jumok.nn import NO_CACHE, DecoderCache, KeyValueCache
from jumok.nn.cache import INITIAL_CAPACITY, NO_DECODER_CACHE
from tests.nn.strategies import noise


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.integers(0, 2))
def test_update_returns_all_positions(chunks: list[int], spare: int) -> None:
    total = sum(chunks)
    k, v = noise(2, 2, total, 3), noise(2, 2, total, 3, seed=1)
    cache = KeyValueCache(total + spare)
    start = 0
    for n in chunks:
        new = slice(start, start + n)
        kept_k, kept_v = cache.update(k[:, :, new], v[:, :, new])
        start += n
        assert cache.length == start
        assert torch.equal(kept_k, k[:, :, :start])
        assert torch.equal(kept_v, v[:, :, :start])


@pytest.mark.parametrize(
    "chunks", [[1] * (2 * INITIAL_CAPACITY + 2), [INITIAL_CAPACITY + 1, 1, 2 * INITIAL_CAPACITY]]
)
def test_a_cache_that_grows_keeps_what_it_holds(chunks: list[int]) -> None:
    total = sum(chunks)
    k, v = noise(2, 2, total, 3), noise(2, 2, total, 3, seed=1)
    cache, start = KeyValueCache(capacity=4 * total), 0
    for n in chunks:
        new = slice(start, start + n)
        kept_k, kept_v = cache.update(k[:, :, new], v[:, :, new])
        start += n
        assert torch.equal(kept_k, k[:, :, :start])
        assert torch.equal(kept_v, v[:, :, :start])


def test_a_full_cache_raises() -> None:
    cache = KeyValueCache(capacity=3)
    x = noise(1, 1, 2, 4)
    cache.update(x, x)
    with pytest.raises(ValueError, match="must hold at most 3 positions, got 4; create it"):
        cache.update(x, x)
    assert cache.length == 2  # unchanged after the error


def test_the_memory_is_projected_once() -> None:
    made = []

    def make() -> tuple[Tensor, Tensor]:
        made.append(True)
        return noise(1, 1, 2, 3), noise(1, 1, 2, 3, seed=1)

    cache = KeyValueCache(1)
    first, again = cache.cross_keys_values(make), cache.cross_keys_values(make)
    assert len(made) == 1
    assert again is first
    NO_CACHE.cross_keys_values(make)
    NO_CACHE.cross_keys_values(make)
    assert len(made) == 3


@given(st.lists(st.integers(0, 2), min_size=1, max_size=5))
def test_rows_can_be_repeated_reordered_and_left_out(rows: list[int]) -> None:
    k, m = noise(3, 1, 2, 4), noise(3, 1, 5, 4, seed=1)
    cache = KeyValueCache(3)
    cache.update(k, k)
    cache.cross_keys_values(lambda: (m, m))
    cache.select(torch.tensor(rows))
    new = noise(len(rows), 1, 1, 4, seed=2)
    kept, _ = cache.update(new, new)
    assert torch.equal(kept, torch.cat([k[rows], new], 2))
    assert torch.equal(cache.cross_keys_values(lambda: (k, k))[0], m[rows])


def test_an_empty_cache_can_be_reordered() -> None:
    cache = DecoderCache.with_capacity(2, 3)
    cache.select(torch.tensor([0, 0]))
    assert cache.length == 0


def test_caches_fit_layers() -> None:
    cache = DecoderCache.with_capacity(2, 3)
    assert len(list(cache.layers(2))) == 2
    with pytest.raises(ValueError, match="3 layers must have 3 caches, got 2; create one for each"):
        cache.layers(3)


def test_no_cache_stores_nothing() -> None:
    x = noise(1, 1, 2, 3)
    assert NO_CACHE.update(x, x) == (x, x)
    assert NO_DECODER_CACHE.length == 0
    assert [c for c, _ in zip(NO_DECODER_CACHE.layers(2), range(2), strict=True)] == [NO_CACHE] * 2
