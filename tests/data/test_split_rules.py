"""Splits by hash: like keys together, the same for ever, about as large as asked."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumok.data.corpora.corpus import RowRange
from jumok.data.split_rules import hash_bucket, select_split, split_keys
from jumok.data.table import Table

KEYS = [f"{n % 700}번 질문" for n in range(1_000)]


def test_the_bucket_is_the_sha1_modulo_1000() -> None:
    for key in KEYS[:20]:
        assert hash_bucket(key) == int(hashlib.sha1(key.encode()).hexdigest(), 16) % 1_000


def test_by_hash_equal_keys_stay_together() -> None:
    table = Table.from_columns({"text": KEYS})
    numbers = split_keys(KEYS, "hash")
    splits = [
        select_split(
            table, RowRange(("a",), first=first, stop=stop, by="hash", key="text"), numbers
        )
        for first, stop in ((0, 800), (800, 900), (900, None))
    ]
    texts = [set(split.column("text")) for split in splits]
    assert sum(map(len, splits)) == 1_000
    assert sum(map(len, texts)) == len(set(KEYS))
    assert [len(split) for split in splits] == pytest.approx([800, 100, 100], abs=40)


def test_by_hash_rows_keep_their_order() -> None:
    table = Table.from_columns({"text": KEYS})
    kept = select_split(
        table, RowRange(("a",), stop=500, by="hash"), split_keys(KEYS, "hash")
    ).column("text")
    assert list(kept) == [key for key in KEYS if hash_bucket(key) < 500]


@pytest.mark.slow
@given(st.lists(st.text(max_size=3), min_size=1, max_size=50))
def test_by_order_splits_have_the_requested_sizes(keys: list[str]) -> None:
    numbers = split_keys(keys, "order")
    assert sorted(numbers) == list(range(len(keys)))
    sums = [hashlib.sha1(key.encode()).digest() for key in keys]
    assert [sums[i] for i in np.argsort(numbers)] == sorted(sums)
    table = Table.from_columns({"text": keys})
    half = len(keys) // 2
    first, rest = (
        select_split(table, RowRange(("a",), first=first, stop=stop, by="order"), numbers)
        for first, stop in ((0, half), (half, None))
    )
    assert (len(first), len(rest)) == (half, len(keys) - half)


def test_by_characters() -> None:
    table = Table.from_columns({"text": ["가나다라마바사아자차카"]})  # 11
    cut = [
        select_split(
            table, RowRange(("a",), first=first, stop=stop, by="characters"), np.empty(0, np.int64)
        )
        for first, stop in ((0, 900), (900, None))
    ]
    assert [split.column("text")[0] for split in cut] == ["가나다라마바사아자", "차카"]
