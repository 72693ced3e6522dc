"""A translation memory: what is in the file stays, whatever its last line looks like."""

from pathlib import Path

import pytest

from jumok.documents.memory import Memory
from jumok.errors import InputError
from tests.errors import raises


def test_a_row_without_its_line_end_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "memory.tsv"
    path.write_text("겨울은 추워요.\tCold winters!\n여름은 더워요.\tHot summers!", encoding="utf-8")
    memory = Memory.open(path)
    assert memory.found["여름은 더워요."] == ("Hot summers!", None)
    memory.add([("비가 와요.", "It rains.", None)])
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[1:] == ["여름은 더워요.\tHot summers!", "비가 와요.\tIt rains."]


@pytest.mark.parametrize("content", ["notes without a line end", "one column\n"])
def test_a_file_that_is_no_memory_does_not_change(content: str, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(content, encoding="utf-8")
    with raises(InputError, "documents.not_two_columns"):
        Memory.open(path)
    assert path.read_text(encoding="utf-8") == content
