"""Token ids are cached by the texts and the tokenizer."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jumok.data.token_cache import MIN_CACHED_TEXTS, _batches, encode_cached
from jumok.text.ragged import Ragged


class Letters:
    """A vocabulary of code points: one id per code point."""

    def __init__(self, shift: int = 0) -> None:
        self.shift = shift
        self.encoded = 0

    @property
    def identity(self) -> str:
        return f"letters + {self.shift}"

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        self.encoded += len(texts)
        return [[ord(letter) + self.shift for letter in text] for text in texts]


TEXTS = [f"{n}번째 글" if n % 7 else "" for n in range(3 * MIN_CACHED_TEXTS)]


def lists(ragged: Ragged) -> list[list[int]]:
    return [ragged[i].tolist() for i in range(len(ragged))]


def test_texts_are_encoded_once() -> None:
    letters = Letters()
    first = encode_cached(TEXTS, letters)
    second = encode_cached(TEXTS, letters)
    assert letters.encoded == len(TEXTS)
    assert lists(first) == lists(second) == Letters().encode_batch(TEXTS)
    assert (second.ids.dtype, second.offsets.dtype) == (np.int32, np.int64)


def test_tokens_before_and_after_each_text_are_cached() -> None:
    for texts in (TEXTS, TEXTS[:2]):
        expected = [[2, *row, 3] for row in Letters().encode_batch(texts)]
        for _ in range(2):
            assert lists(encode_cached(texts, Letters(), before=[2], after=[3])) == expected
    assert lists(encode_cached(TEXTS, Letters())) == Letters().encode_batch(TEXTS)


def test_a_batch_of_long_texts_is_smaller() -> None:
    texts = ["가" * 2**20] * 5
    assert [len(batch) for batch in _batches(texts)] == [2, 2, 1]


def test_other_texts_and_other_vocabularies_have_other_keys() -> None:
    encode_cached(TEXTS, Letters())
    assert lists(encode_cached(TEXTS, Letters(shift=1))) == Letters(shift=1).encode_batch(TEXTS)
    joined = ["".join(TEXTS[:2]), "", *TEXTS[2:]]
    assert lists(encode_cached(joined, Letters())) == Letters().encode_batch(joined)


def test_a_lone_surrogate_is_left_to_the_tokenizer() -> None:
    texts = [*TEXTS, "\ud800"]
    assert lists(encode_cached(texts, Letters())) == Letters().encode_batch(texts)


def test_few_texts_are_not_cached(cache_home: Path) -> None:
    assert lists(encode_cached(["가나", ""], Letters())) == [[0xAC00, 0xB098], []]
    assert lists(encode_cached([], Letters())) == []
    assert not cache_home.exists()


def test_damaged_ids_are_computed_again(cache_home: Path) -> None:
    encode_cached(TEXTS, Letters())
    (file,) = (path for path in cache_home.rglob("*.ids"))
    file.write_bytes(file.read_bytes()[:-1])
    letters = Letters()
    assert lists(encode_cached(TEXTS, letters)) == Letters().encode_batch(TEXTS)
    assert letters.encoded == len(TEXTS)


def test_ids_stay_in_memory_without_a_cache_folder(cache_home: Path) -> None:
    cache_home.write_text("a file where the folder should be")
    assert lists(encode_cached(TEXTS, Letters())) == Letters().encode_batch(TEXTS)
