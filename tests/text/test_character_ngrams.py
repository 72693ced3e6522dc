"""Character n-grams: their characters, and rows that are the same everywhere."""

import numpy as np
import pytest

from jumok.text.character_ngrams import WINDOWS, ngram_rows

MASK = 2**64 - 1


def row_of(characters: list[int], window: int, n_rows: int) -> int:
    """FNV-1a of the window and its characters, mixed as MurmurHash3 does, in Python integers."""
    hashed = (0xCBF29CE484222325 ^ window) * 0x100000001B3 & MASK
    for character in characters:
        hashed = (hashed ^ character) * 0x100000001B3 & MASK
    hashed = (hashed ^ hashed >> 33) * 0xFF51AFD7ED558CCD & MASK
    return (hashed ^ hashed >> 33) % n_rows


@pytest.mark.parametrize("text", ["", "가", "서울 은", "a😀힣\x00", "\ud800"])
def test_rows_of_the_characters_around_each(text: str) -> None:
    codes = [0x110000] * 2 + [ord(character) for character in text] + [0x110001] * 2
    rows = ngram_rows(text, 1000)
    assert rows.shape == (len(text), len(WINDOWS))
    for at in range(len(text)):
        expected = [
            row_of(codes[2 + at + start : 2 + at + stop], window, 1000)
            for window, (start, stop) in enumerate(WINDOWS)
        ]
        assert rows[at].tolist() == expected


def test_rows_fill_the_table_evenly() -> None:
    """Syllables that differ in low bits only do not share rows more than by chance."""
    rows = ngram_rows("".join(map(chr, range(0xAC00, 0xD7A4))), 65_536)
    used = [len(np.unique(column)) for column in rows.T]
    expected = 65_536 * (1 - np.exp(-11_172 / 65_536))  # 10,278
    assert all(abs(n - expected) < 0.03 * expected for n in used)
