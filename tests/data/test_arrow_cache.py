"""Large files are parsed once, mapped afterwards, and never trusted when damaged."""

import logging
from pathlib import Path

import pytest

from jumok.data.arrow_cache import cached_table
from jumok.data.files import tables as readers
from jumok.data.files.tables import read_parallel, read_table
from jumok.errors import InputError

COLUMNS = ("text", "label")


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large.tsv"
    rows = "".join(f"{n}번째로 본 영화 {'참 ' * 20}좋았다\t{n % 2}\n" for n in range(30_000))
    path.write_text(f"text\tlabel\n{rows}나쁜 줄\n", encoding="utf-8")
    assert path.stat().st_size > readers.MIN_CACHED_BYTES
    return path


def kept(cache_home: Path) -> list[Path]:
    return [path for path in cache_home.rglob("*") if path.is_file()]


def test_a_large_file_is_kept_and_read_the_same(large: Path, cache_home: Path) -> None:
    first = read_table(large, COLUMNS, on_bad_rows="skip")
    (file,) = kept(cache_home)
    changed = file.stat().st_mtime_ns
    second = read_table(large, COLUMNS, on_bad_rows="skip")
    assert kept(cache_home) == [file]
    assert file.stat().st_mtime_ns == changed
    assert len(first) == len(second) == 30_000
    assert list(first.column("text")) == list(second.column("text"))
    assert first.bad_rows == second.bad_rows
    assert str(second.bad_rows).startswith(f"  {large}:30002: 1 cell, expected 2")
    assert first.sha256 == second.sha256


def test_a_small_file_stays_in_memory(tmp_path: Path, cache_home: Path) -> None:
    path = tmp_path / "small.tsv"
    path.write_text("text\tlabel\n글\t0\n", encoding="utf-8")
    read_table(path, COLUMNS)
    assert kept(cache_home) == []


def test_other_content_and_other_options_have_other_keys(large: Path, cache_home: Path) -> None:
    read_table(large, COLUMNS, on_bad_rows="skip")
    read_table(large, ["text"], on_bad_rows="skip")
    large.write_text(large.read_text(encoding="utf-8").replace("0번째", "영번째", 1), "utf-8")
    table = read_table(large, COLUMNS, on_bad_rows="skip")
    assert table.column("text")[0].startswith("영번째")
    assert len(kept(cache_home)) == 3


def test_invalid_rows_are_not_cached(large: Path, cache_home: Path) -> None:
    for _ in range(2):
        with pytest.raises(InputError, match=r"large\.tsv:30002: 1 cell"):
            read_table(large, COLUMNS)
    assert kept(cache_home) == []


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "other"])
def test_a_damaged_file_is_made_again(large: Path, cache_home: Path, damage: str) -> None:
    whole = list(read_table(large, COLUMNS, on_bad_rows="skip").column("text"))
    (file,) = kept(cache_home)
    content = bytearray(file.read_bytes())
    sound = bytes(content)
    content[len(content) // 2] ^= 1
    file.write_bytes(
        {"cut": sound[:-7], "flip": bytes(content), "empty": b"", "other": b"PK" * 99}[damage]
    )
    assert cached_table(file) is None
    assert list(read_table(large, COLUMNS, on_bad_rows="skip").column("text")) == whole
    assert file.read_bytes() == sound


def test_an_unwritable_cache_is_not_needed(
    large: Path, cache_home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache_home.write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING):
        table = read_table(large, COLUMNS, on_bad_rows="skip")
    assert len(table) == 30_000
    assert table.bad_rows.count == 1
    assert "nothing is cached" in caplog.text


def test_parallel_files_are_kept_together(large: Path, tmp_path: Path, cache_home: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("".join(f"line {n}\n" for n in range(30_002)), encoding="utf-8")
    first = read_parallel([large, other])
    assert len(kept(cache_home)) == 1
    assert list(read_parallel([large, other]).column("target")) == list(first.column("target"))


def test_a_user_without_a_home_has_no_cache(
    large: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def nowhere(_: type[Path]) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", classmethod(nowhere))
    assert len(read_table(large, COLUMNS, on_bad_rows="skip")) == 30_000
    assert "nothing is cached" in caplog.text
