"""Folders that are there whole or not at all."""

from pathlib import Path

import pytest

from jumok.atomic_io import atomic_directory
from jumok.errors import InputError, JumokError, StorageError


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_nothing_is_left_of_what_failed(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def fail() -> None:
        with atomic_directory(out) as scratch:
            (scratch / "model.bin").write_bytes(b"half")
            raise JumokError("the rest did not come")

    with pytest.raises(JumokError, match="the rest did not come"):
        fail()
    assert names_in(tmp_path) == []


def test_an_empty_folder_is_filled_with_folders_too(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with atomic_directory(out) as scratch:
        (scratch / "more").mkdir()
        (scratch / "more" / "file").write_bytes(b"")
        assert names_in(out) == []
    assert names_in(out) == ["more"]
    assert names_in(tmp_path) == ["out"]


def test_what_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(InputError, match="is not empty; name a folder"), atomic_directory(tmp_path):
        pass
    with (
        pytest.raises(InputError, match="is not a folder; name one"),
        atomic_directory(tmp_path / "mine"),
    ):
        pass
    assert names_in(tmp_path) == ["mine"]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StorageError, match="cannot be written"),
        atomic_directory(tmp_path / "file" / "out"),
    ):
        pass


def test_the_folder_one_is_in_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for here in (".", ".."):
        with (
            pytest.raises(InputError, match="is no name of a new folder; give one, such as"),
            atomic_directory(Path(here)),
        ):
            pass
