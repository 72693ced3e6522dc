"""No file of the cache that a power cut left torn is read: token ids, tables, compiled kernels.

tests/data/test_matrix_cache.py has the vectors.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jumok.data.checked_file import HashingFile, intact_size
from jumok.data.files import tables
from jumok.data.files.tables import read_table
from jumok.data.token_cache import MIN_CACHED_TEXTS, encode_cached
from tests.data.torn_files import cut

TEXTS = [f"{n}번째 글" for n in range(MIN_CACHED_TEXTS)]


class Letters:
    """A vocabulary of code points."""

    identity = "letters"

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        return [list(map(ord, text)) for text in texts]


def token_ids(_: Path) -> object:
    encoded = encode_cached(TEXTS, Letters())
    return encoded.ids.tolist(), encoded.offsets.tolist()


def table(folder: Path) -> object:
    path = folder / "rows.tsv"
    path.write_text("text\tlabel\n" + "글\t0\n" * 300, encoding="utf-8")
    return list(read_table(path, ["text", "label"]).column("text"))


@pytest.mark.parametrize("derive", [token_ids, table])
def test_a_torn_file_is_derived_again(
    derive: Callable[[Path], object],
    tmp_path: Path,
    cache_home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tables, "MIN_CACHED_BYTES", 1)
    expected = derive(tmp_path)
    (file,) = (path for path in cache_home.rglob("*") if path.is_file())
    whole = file.read_bytes()
    for state in cut(whole)[::4]:
        file.write_bytes(state)
        assert derive(tmp_path) == expected
        assert file.read_bytes() == whole


def test_the_digest_ends_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with HashingFile(os.open(path, os.O_WRONLY | os.O_CREAT)) as file:
        file.write(b"rows")
        file.write_digest()
    assert path.read_bytes() == b"rows" + hashlib.sha256(b"rows").digest()
    assert intact_size(path) == 4
    assert intact_size(tmp_path / "missing") is None
