"""Lines of up to 1 MiB are predicted, within the memory that docs/input.md states."""

import io
import os
import subprocess
from pathlib import Path

import pytest

import jumok
from jumok.cli.stdin import read_lines
from jumok.errors import InputError
from jumok.text.limits import MAX_PRETRAINED_TEXT_BYTES, MAX_TEXT_BYTES
from tests.cli.commands import JUMOK, call, environment
from tests.errors import raises

Capture = pytest.CaptureFixture[str]
MIB = 2**20


def predict(run_: Path, stdin: Path, *arguments: str) -> tuple[int, str, int]:
    """Exit code, stderr and the most memory, in bytes, of a prediction that reads a file."""
    with stdin.open("rb") as lines, (stdin.parent / "err").open("w+b") as err:
        process = subprocess.Popen(
            [*JUMOK, "predict", str(run_), *arguments],
            stdin=lines,
            stdout=subprocess.DEVNULL,
            stderr=err,
            env=environment(),
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        err.seek(0)
        return process.returncode, err.read().decode(), used.ru_maxrss * 1024


@pytest.mark.slow
def test_memory_is_bounded(review_run: Path, tmp_path: Path) -> None:
    """Four times the input and 64 MiB above a process that reads a short line."""
    unit = "x"  # the shortest pieces: of Hangul a MiB is a third as many
    short, long, endless = (tmp_path / name for name in ("short", "long", "endless"))
    short.write_text("이 영화\n", encoding="utf-8")
    size = len(unit.encode())
    long.write_text(unit * (MAX_TEXT_BYTES // size) + "\n", encoding="utf-8")
    with endless.open("wb") as file:
        for _ in range(100):
            file.write(unit.encode() * (MIB // size))
    _, _, idle = predict(review_run, short)
    code, err, peak = predict(review_run, long)
    assert code == 0, err
    assert peak < idle + 4 * long.stat().st_size + 64 * MIB
    code, err, peak = predict(review_run, endless)
    assert code == 2
    assert "stdin:1: lines must have at most 1,048,576 bytes; split the line\n" in err
    assert peak < idle + 16 * MIB


def test_earlier_lines_are_predicted() -> None:
    lines = read_lines(io.BytesIO(b"a\n" + b"x" * (MAX_TEXT_BYTES + 1) + b"\nb\n"))
    assert next(lines) == "a"
    with raises(InputError, "cli.stdin_line_too_long"):
        next(lines)


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_line_as_long_as_the_limit_is_a_text(end: bytes) -> None:
    long = "가" * (MAX_TEXT_BYTES // 3) + "x"
    assert list(read_lines(io.BytesIO(b"\n" + long.encode() + end))) == ["", long]


@pytest.mark.parametrize("ask", [lambda loaded, text: loaded(["a", text]), jumok.trace])
def test_the_same_limit_in_python(review_run: Path, ask: object) -> None:
    loaded = jumok.load(review_run)
    for text in ("x" * (MAX_TEXT_BYTES + 1), "가" * (MAX_TEXT_BYTES // 3 + 1)):
        with raises(InputError, "text.too_long"):
            ask(loaded, text)  # type: ignore[operator]


def test_vocab_has_the_same_limit(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, review_run: Path
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"x" * (MAX_TEXT_BYTES + 9)))
    monkeypatch.setattr("sys.stdin", stdin)
    done = call(capsys, "vocab", "encode", review_run)
    assert (done.code, done.out) == (2, "")
    assert "stdin:1: lines must have at most" in done.err


def test_imported_tokenizers_have_a_lower_limit(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.hf_folders import gpt2

    gpt2(tmp_path / "gpt2")
    loaded = jumok.load(tmp_path / "gpt2").with_decoding(["max_length=2"])
    assert isinstance(loaded("a b " * (MAX_PRETRAINED_TEXT_BYTES // 4)), jumok.GeneratedText)
    for ask in (loaded, lambda text: jumok.trace(loaded, text)):
        with raises(InputError, "text.too_long"):
            ask("x" * (MAX_PRETRAINED_TEXT_BYTES + 1))
