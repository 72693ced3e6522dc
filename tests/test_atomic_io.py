"""Files appear whole or not at all, and every failure is one sentence."""

import errno
import os
import stat
import sys
from pathlib import Path
from typing import BinaryIO

import pytest

from jumok.atomic_io import (
    read_regular,
    remove,
    remove_stale_temp,
    sha256_of,
    storage_errors,
    temp_path,
    write_atomically,
    write_durably,
)
from jumok.errors import StorageError
from tests.errors import raises


def test_bytes_and_writers_replace_a_file(tmp_path: Path) -> None:
    path = tmp_path / "결과.json"
    write_atomically(path, b"old")
    write_atomically(path, lambda file: file.write("새것".encode()))
    assert path.read_text(encoding="utf-8") == "새것"
    assert os.listdir(tmp_path) == ["결과.json"]


@pytest.mark.skipif(os.name != "posix", reason="folders are not forced to disk elsewhere")
def test_data_is_synced_before_the_name_and_the_name_before_the_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power cut may leave an empty file, or none though one was promised."""
    path, force = tmp_path / "file", os.fsync
    forced: list[tuple[str, bool]] = []

    def fsync(descriptor: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        forced.append((kind, path.exists()))
        force(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(path, b"1")
    assert forced == [("file", False), ("folder", True)]


def test_long_names_leave_space_for_the_temporary_name(tmp_path: Path) -> None:
    path = tmp_path / ("가" * 85)  # 255 bytes, the longest name there is
    write_atomically(path, b"x")
    assert path.read_bytes() == b"x"


def test_a_failing_writer_leaves_only_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    write_atomically(path, b"old")

    def full(file: BinaryIO) -> None:
        file.write(b"new" * 1000)
        raise OSError(errno.ENOSPC, "No space left on device")

    def interrupted(file: BinaryIO) -> None:
        file.write(b"new" * 1000)
        raise KeyboardInterrupt

    with pytest.raises(
        StorageError, match=r"history.csv: cannot be written \(No space.*; free some"
    ):
        write_atomically(path, full)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, interrupted)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["history.csv"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of processes")
def test_a_full_disk(tmp_path: Path) -> None:
    import resource

    path = tmp_path / "model.safetensors"
    write_atomically(path, b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
        with pytest.raises(StorageError, match="free some space"):
            write_atomically(path, b"x" * 200_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_wrong_paths(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"cannot be written \(No such file.*; check the path"):
        write_atomically(tmp_path / "absent" / "file", b"")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match=r"\(Not a directory\); check the path"):
        write_atomically(tmp_path / "file" / "below", b"")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match=r"\(Is a directory\); check the path"):
        write_atomically(tmp_path / "folder", b"")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do anything")
def test_a_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StorageError, match=r"\(Permission denied\); check its permissions"):
            write_atomically(tmp_path / "file", b"")
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EROFS, "choose a folder that can be written to"),
        (errno.EDQUOT, "free some space"),
        (errno.EIO, "check the disk"),
    ],
)
def test_every_error_has_advice(number: int, advice: str) -> None:
    expected = rf"^x: cannot be read \(.+\); {advice}"
    with (
        pytest.raises(StorageError, match=expected) as failure,
        storage_errors("x: cannot be read"),
    ):
        raise OSError(number, os.strerror(number))
    assert failure.value.exit_code == 3


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_permissions_follow_the_umask(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "file", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~mask


def test_a_new_file_never_overwrites(tmp_path: Path) -> None:
    write_durably(tmp_path / "file", b"first")
    with pytest.raises(FileExistsError):
        write_durably(tmp_path / "file", b"second")
    assert (tmp_path / "file").read_bytes() == b"first"


def test_checksums_and_bytes_of_regular_files_only(tmp_path: Path) -> None:
    path = tmp_path / "abc"
    path.write_bytes(b"abc")
    assert sha256_of(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert read_regular(path, limit=3) == b"abc"
    with raises(StorageError, "storage.file_too_large"):
        read_regular(path, limit=2)
    with pytest.raises(StorageError, match=r"cannot be read \(No such file.*; check the path"):
        sha256_of(tmp_path / "absent")
    for special in (tmp_path, Path(os.devnull)):
        with raises(StorageError, "storage.not_regular_file"):
            sha256_of(special)


def test_only_stale_temporary_files_are_removed(tmp_path: Path) -> None:
    actual = temp_path(tmp_path, "tmp", "40")
    for name in (actual.name, f".tmp-{os.getpid()}-40-00000000", ".tmp-40", ".hidden", "step-40"):
        (tmp_path / name).mkdir()
    (tmp_path / f".del-{os.getpid()}-7-ffffffff").write_bytes(b"")
    remove_stale_temp(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted([actual.name, ".tmp-40", ".hidden", "step-40"])


def test_removing_a_link_keeps_its_target(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    remove(tmp_path / "link")
    assert os.listdir(tmp_path) == ["folder"]
