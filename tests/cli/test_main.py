"""The command itself: help, version, unknown commands, error messages, broken pipes."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from jumok import __version__
from jumok.cli import COMMANDS, help_text
from tests.cli.commands import JUMOK, call, environment

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",), ("help",)])
def test_help(capsys: Capture, arguments: tuple[str, ...]) -> None:
    done = call(capsys, *arguments)
    assert (done.code, done.out, done.err) == (0, help_text() + "\n", "")
    assert all(command in done.out for command in COMMANDS)


def test_version(capsys: Capture) -> None:
    done = call(capsys, "--version")
    assert (done.code, done.out) == (0, f"jumok {__version__}\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(capsys: Capture, command: str) -> None:
    done = call(capsys, command, "--help")
    assert done.code == 0
    assert f"jumok {command}" in done.out
    assert done.err == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("trian",), "jumok: unknown command 'trian'; did you mean train?\n"),
        (("zzz", "--json"), "jumok: unknown command 'zzz'; known: average, chat, check, "),
        (
            ("predict", "nowhere", "안녕"),
            "jumok: nowhere must be a run, got no such folder; ",
        ),
    ],
)
def test_an_error_is_one_sentence_on_stderr(
    capsys: Capture, arguments: tuple[str, ...], sentence: str
) -> None:
    done = call(capsys, *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(sentence)
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        *(
            ("train", "--nonsense"),
            ("evaluate",),
            ("predict",),
            ("evaluate", "a", "b"),
            ("data", "x"),
        ),
        ("search", "ko-static", "notes.txt", "a", "--top", "0"),
    ],
)
def test_usage_errors_are_one_sentence(capsys: Capture, arguments: tuple[str, ...]) -> None:
    done = call(capsys, *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("jumok: ")
    assert done.err.endswith(f"; see jumok {arguments[0]} --help\n")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [("--debug", "predict", "nowhere"), ("predict", "nowhere", "--debug")]
)
def test_debug_prints_a_traceback(capsys: Capture, arguments: tuple[str, ...]) -> None:
    done = call(capsys, *arguments)
    assert done.code == 2
    assert "Traceback" in done.err
    assert "nowhere must be a run" in done.err


def test_an_unexpected_exception_is_reported_as_a_bug(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, review_run: Path
) -> None:

    def broken(*arguments: object) -> None:
        raise TypeError("unexpected")

    for path in ("jumok.engine.model.open_run", "jumok.tasks.runs.load.load"):
        monkeypatch.setattr(path, broken)
    done = call(capsys, "predict", review_run, "안녕")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("jumok: TypeError: ")
    assert done.err.endswith("; this is a bug in jumok, use --debug for a traceback\n")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
    ],
)
def test_out_of_memory_is_not_reported_as_a_bug(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, review_run: Path, error: Exception
) -> None:
    def load(*arguments: object, **options: object) -> None:
        raise error

    for path in ("jumok.engine.model.open_run", "jumok.tasks.runs.load.load"):
        monkeypatch.setattr(path, load)
    done = call(capsys, "predict", review_run, "안녕")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("jumok: out of memory; process less at once")


def test_control_characters_of_the_input_are_escaped(capsys: Capture, review_run: Path) -> None:
    """An escape, a bell, a bidirectional mark, half a surrogate pair."""
    for word in ("\x1b]0;title\x07", "\u202ecod.exe", "\ud800", "a\rb", "\x9b2J"):
        done = call(capsys, "evaluate", review_run, "--split", word)
        assert done.code == 2
        assert all(letter == "\n" or letter.isprintable() for letter in done.err), done.err
        assert ascii(word)[1:-1] in done.err


def test_a_very_long_argument_is_not_echoed_whole(capsys: Capture) -> None:
    done = call(capsys, "train", "x" * 100_000)
    assert done.code == 2
    assert len(done.err) < 10_000
    assert "characters left out" in done.err


def test_an_argument_that_is_not_valid_text(capsys: Capture, review_recipe: Path) -> None:
    done = call(capsys, "train", review_recipe, "name=\ud800", "--dry-run")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "jumok: an override must be valid Unicode, got half a surrogate pair in 'name=\\ud800'; "
        "write whole characters\n"
    )


def test_an_invalid_file_name_is_reported(capsys: Capture) -> None:
    for verb, arguments in (("predict", ["안녕"]), ("view", [])):
        done = call(capsys, verb, "각" * 300, *arguments)
        assert (done.code, done.out) == (3, "")
        assert done.err.count("\n") == 1
        assert "bug in jumok" not in done.err


@pytest.mark.slow
def test_a_closed_pipe_is_not_an_error(review_run: Path) -> None:
    """As in `jumok predict RUN | head -1`."""
    with subprocess.Popen(
        [*JUMOK, "predict", str(review_run)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write("이 영화 재미있어요\n".encode())
        process.stdin.flush()
        assert process.stdout.readline()
        process.stdout.close()
        process.stdin.write("이 영화 재미있어요\n".encode() * 5)
        process.stdin.close()
        message = process.stderr.read().decode()
        assert process.wait(60) == 0
    assert message == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_the_exit_code_is_kept_when_stderr_cannot_be_written() -> None:
    """For example a log on a full disk."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*JUMOK, "nonsense"], stderr=full, check=False, timeout=60)
    assert done.returncode == 2


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_predictions_that_cannot_be_written(review_run: Path, unbuffered: str) -> None:
    """As in `jumok predict RUN 안녕 > answers.txt` on a full disk."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*JUMOK, "predict", str(review_run), "이 영화"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
            env=environment(PYTHONUNBUFFERED=unbuffered),
        )
    assert done.returncode == 3
    assert done.stderr.decode() == (
        "jumok: stdout: No space left on device; free some space, or write the output to another "
        "place\n"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_errors_never_go_to_stdout() -> None:
    """Not even when stderr is closed."""
    done = subprocess.run(
        ["sh", "-c", '"$@" 2>&-', "sh", *JUMOK, "nonsense"],
        stdout=subprocess.PIPE,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, b"")
