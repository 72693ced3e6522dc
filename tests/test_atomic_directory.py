"""Atomic folders: complete or absent."""

import os
from pathlib import Path

import pytest

from jumok.atomic_io import atomic_directory
from jumok.errors import InputError, JumokError, StorageError
from tests.errors import raises


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def fail() -> None:
        with atomic_directory(out) as scratch:
            (scratch / "model.bin").write_bytes(b"half")
            raise JumokError("test.error", "the rest did not come")

    with pytest.raises(JumokError, match="the rest did not come"):
        fail()
    assert names_in(tmp_path) == []


def test_an_empty_folder_can_be_filled_with_folders(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with atomic_directory(out) as scratch:
        (scratch / "more").mkdir()
        (scratch / "more" / "file").write_bytes(b"")
        assert names_in(out) == []
    assert names_in(out) == ["more"]
    assert names_in(tmp_path) == ["out"]


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    ended, others, running = (
        tmp_path / f".tmp-{pid}-{label}-0123abcd"
        for pid, label in ((999_999_999, "out"), (999_999_999, "out2"), (os.getppid(), "out"))
    )
    for folder in (ended, others, running):
        folder.mkdir()
        (folder / "model.bin").write_bytes(b"half")
    with atomic_directory(tmp_path / "out"):
        pass
    assert names_in(tmp_path) == sorted([others.name, running.name, "out"])


def test_existing_files_are_kept(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with raises(InputError, "storage.not_empty"), atomic_directory(tmp_path):
        pass
    with (
        raises(InputError, "storage.exists_not_folder"),
        atomic_directory(tmp_path / "mine"),
    ):
        pass
    assert names_in(tmp_path) == ["mine"]


def test_a_read_only_parent(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StorageError, match="cannot be written"),
        atomic_directory(tmp_path / "file" / "out"),
    ):
        pass


def test_the_current_folder_is_rejected_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for here in (".", ".."):
        with (
            raises(InputError, "storage.not_a_new_folder"),
            atomic_directory(Path(here)),
        ):
            pass
