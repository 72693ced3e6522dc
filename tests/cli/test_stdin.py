"""Lines of a pipe are read as far as they have arrived, and no further."""

import os
import random
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jumok.cli import predict
from jumok.cli.stdin import PipeLines, read_lines
from tests.cli.commands import JUMOK, environment, run

Pipe = tuple[PipeLines, int]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    read_end, write_end = os.pipe()
    with open(read_end, "rb", 0), open(write_end, "wb", 0):
        yield PipeLines(read_end), write_end


def test_lines_that_have_arrived(pipe: Pipe) -> None:
    lines, end = pipe
    assert not lines.has_line()
    os.write(end, b"a\nb")
    assert lines.has_line()
    assert lines.readline(9) == b"a\n"
    assert not lines.has_line()  # half a line
    os.write(end, b"c\n\n")
    assert lines.has_line()
    assert [lines.readline(9), lines.readline(9), lines.has_line()] == [b"bc\n", b"\n", False]


def test_the_last_line_needs_no_ending() -> None:
    read_end, write_end = os.pipe()
    with open(read_end, "rb", 0):
        os.write(write_end, b"a\nlast")
        os.close(write_end)
        lines = PipeLines(read_end)
        assert lines.readline(9) == b"a\n"
        assert lines.has_line()
        assert [lines.readline(9), lines.readline(9), lines.has_line()] == [b"last", b"", False]


def test_long_lines_are_cut_at_the_limit(pipe: Pipe) -> None:
    lines, end = pipe
    os.write(end, b"123456\n")
    assert [lines.readline(4), lines.readline(4)] == [b"1234", b"56\n"]


@pytest.mark.parametrize("kind", ["pipe", "socket", "without blocking"])
def test_the_lines_are_those_of_the_bytes(kind: str) -> None:
    """Written in parts of any size, by another thread."""
    source = random.Random(0)
    texts = ["가" * source.choice([0, 1, 5, 40_000]) for _ in range(200)]
    data = "\n".join(texts).encode()
    if kind == "socket":
        left, right = socket.socketpair()
        read_end, write_end = left.detach(), right.detach()
    else:
        read_end, write_end = os.pipe()
    os.set_blocking(read_end, kind != "without blocking")

    def write() -> None:
        with open(write_end, "wb", 0) as file:
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest[: source.choice([1, 100, 100_000])]) :]

    writer = threading.Thread(target=write)
    writer.start()
    with open(read_end, "rb", 0):
        found = list(read_lines(PipeLines(read_end)))
    writer.join()
    assert found == texts


def test_a_pipe_is_answered_as_a_file(review_run: Path, tmp_path: Path) -> None:
    """300 lines, an invalid one among them; probabilities are rounded in the output."""
    lines = [f"정말 재미있는 영화 {i}".encode() for i in range(300)]
    file = tmp_path / "texts.txt"
    for content in (b"\n".join(lines), b"\n".join([*lines[:280], b"\xff", *lines[280:]])):
        file.write_bytes(content)
        with file.open("rb") as stdin:
            expected = subprocess.run(
                [*JUMOK, "predict", str(review_run)],
                stdin=stdin,
                capture_output=True,
                env=environment(),
                check=False,
            )
        done = run("predict", review_run, stdin=content)
        assert done.out == expected.stdout.decode()
        assert done.err == expected.stderr.decode()


def test_each_line_is_answered_when_it_arrives(review_run: Path) -> None:
    with subprocess.Popen(
        [*JUMOK, "predict", str(review_run)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for text in ("재미있어요", "지루해요\n최고", "별로"):
            process.stdin.write(f"{text}\n".encode())
            process.stdin.flush()
            for _ in text.split("\n"):
                assert process.stdout.readline()  # without more lines or the end of the pipe
        process.stdin.close()
        assert process.stdout.read() == b""


def test_batches_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, b"x\n" * 600)
    os.close(write_end)
    with open(read_end, encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        sizes = [len(chunk) for chunk in predict._chunks()]
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 128, 256, 89, 0]
