"""Matrices in the cache: one process computes, others wait; planted files are not read."""

import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from jumok.data import matrix_cache
from jumok.data.matrix_cache import Matrix, cached_matrix
from jumok.errors import StorageError
from tests.cli.commands import environment
from tests.data.torn_files import cut

SHAPE = (10, 3)
EXPECTED = np.arange(30, dtype=np.float32).reshape(SHAPE)
STARTS = [0, 4, 8]  # of the batches of four rows
FILE_BYTES = 4 * 30 + 32  # the rows and their SHA-256

PROCESS = """
import sys
from pathlib import Path
import numpy as np
from jumok.data.matrix_cache import cached_matrix

folder, stops_at = Path(sys.argv[1]), int(sys.argv[2])
starts = []

def rows(start):
    starts.append(start)
    return np.arange(30, dtype=np.float32).reshape(10, 3)[start:start + 4]

def progress(done, n):
    if done == stops_at:
        print("stopped", flush=True)
        sys.stdin.readline()

matrix = cached_matrix(folder, "a", (10, 3), rows, progress)
print(starts, matrix.tolist() == np.arange(30).reshape(10, 3).tolist())
"""
WAITS = "another process is computing the same vectors; waiting for it\n"


def start(folder: Path, stops_at: int = 0) -> "subprocess.Popen[str]":
    """A process that needs the matrix; it reads a line after `stops_at` rows."""
    return subprocess.Popen(
        [sys.executable, "-c", PROCESS, str(folder), str(stops_at)],
        env=environment(JUMOK_LANG="en"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def stopped(folder: Path, rows: int) -> "subprocess.Popen[str]":
    """Such a process after it has written these rows."""
    process = start(folder, rows)
    assert process.stdout is not None
    assert process.stdout.readline() == "stopped\n"
    return process


def computed(folder: Path) -> list[int]:
    """The starts of the batches that this process has to compute; the matrix must be right."""
    starts = []

    def rows(start: int) -> Matrix:
        starts.append(start)
        return EXPECTED[start : start + 4]

    assert cached_matrix(folder, "a", SHAPE, rows).tolist() == EXPECTED.tolist()
    return starts


def interrupted(folder: Path) -> dict[str, bytes]:
    """The files after an interruption with eight rows."""

    def interrupt(done: int, _: int) -> None:
        if done == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached_matrix(folder, "a", SHAPE, lambda start: EXPECTED[start : start + 4], interrupt)
    return {name: (folder / name).read_bytes() for name in ("a-0.part", "a-4.part")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "jumok" / "vectors"


def test_it_is_computed_once(folder: Path) -> None:
    assert computed(folder) == STARTS
    assert computed(folder) == []
    (path,) = folder.iterdir()
    assert path.stat().st_size == FILE_BYTES
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_second_process_waits_for_the_first(folder: Path) -> None:
    first, second = stopped(folder, 8), start(folder)
    assert second.stderr is not None
    assert second.stderr.readline() == WAITS
    assert first.communicate("\n", timeout=120)[0] == f"{STARTS} True\n"
    assert second.communicate(timeout=120)[0] == "[] True\n"
    assert [path.name for path in folder.iterdir()] == ["a.f32"]


def test_the_second_continues_when_the_first_is_killed(folder: Path) -> None:
    first, second = stopped(folder, 8), start(folder)
    assert second.stderr is not None
    assert second.stderr.readline() == WAITS
    first.kill()
    first.communicate()
    assert second.communicate(timeout=120)[0] == "[8] True\n"
    assert [path.name for path in folder.iterdir()] == ["a.f32"]


@pytest.mark.parametrize("size", [0, 60, 4 * 30, FILE_BYTES - 1, FILE_BYTES, FILE_BYTES + 1, 240])
def test_a_file_of_another_size_is_computed_again(folder: Path, size: int) -> None:
    computed(folder)
    (folder / "a.f32").write_bytes(b"\1" * size)
    assert computed(folder) == STARTS
    assert computed(folder) == []


def damaged(content: bytes) -> Iterator[bytes]:
    """The states of a file that a power cut may leave, and changed bytes."""
    yield from (state for state in cut(content)[::3] if state != content)
    for position in range(0, len(content), 29):
        yield content[:position] + bytes([content[position] ^ 4]) + content[position + 1 :]


def test_no_torn_or_changed_byte_is_read(folder: Path) -> None:
    computed(folder)
    whole = (folder / "a.f32").read_bytes()
    for state in damaged(whole):
        (folder / "a.f32").write_bytes(state)
        assert computed(folder) == STARTS
        assert (folder / "a.f32").read_bytes() == whole


def test_no_torn_or_changed_row_is_continued(folder: Path) -> None:
    left = interrupted(folder)
    for name in left:
        for state in damaged(left[name]):
            for each, content in (left | {name: state}).items():
                (folder / each).write_bytes(content)
            assert computed(folder) == [int(name[2]), 8]
            (folder / "a.f32").unlink()
    for each, content in left.items():
        (folder / each).write_bytes(content)
    assert computed(folder) == [8]


def test_without_locks_no_part_is_read_or_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix_cache, "acquire", lambda lock: False)  # as on some network drives

    def interrupt(done: int, n: int) -> None:
        assert (done, n) == (4, 10)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached_matrix(folder, "a", SHAPE, lambda start: EXPECTED[start : start + 4], interrupt)
    assert list(folder.iterdir()) == []
    assert computed(folder) == STARTS
    assert computed(folder) == []


def test_a_folder_that_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "cache").write_bytes(b"")
    assert computed(tmp_path / "cache" / "jumok" / "vectors") == STARTS
    assert "a.f32 cannot be written (Not a directory); nothing is cached" in caplog.text


@pytest.mark.skipif(sys.platform != "linux", reason="needs limits on the size of files")
@pytest.mark.parametrize("room", range(0, FILE_BYTES, 8))
def test_a_full_disk(folder: Path, caplog: pytest.LogCaptureFixture, room: int) -> None:
    """Whatever write fails, the matrix is right; with room again, it is cached."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        assert computed(folder) == STARTS
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert "cannot be written (File too large); nothing is cached" in caplog.text
    assert computed(folder) in (STARTS, [])
    assert computed(folder) == []
    assert [path.name for path in folder.iterdir()] == ["a.f32"]


def test_an_error_of_the_rows_is_not_one_of_the_cache(folder: Path) -> None:
    def rows(_: int) -> Matrix:
        raise StorageError("test.error", "the rows cannot be read; check the disk")

    with pytest.raises(StorageError, match="the rows cannot be read"):
        cached_matrix(folder, "a", SHAPE, rows)
