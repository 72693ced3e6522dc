"""The door: help, version, unknown words, one sentence for an error, pipes that break."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from jumok import __version__
from jumok.cli import VERBS, help_text
from tests.cli.commands import JUMOK, call, environment, run

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",), ("help",)])
def test_help(capsys: Capture, words: tuple[str, ...]) -> None:
    done = call(capsys, *words)
    assert (done.code, done.out, done.err) == (0, help_text() + "\n", "")
    assert all(verb in done.out for verb in VERBS)


def test_version(capsys: Capture) -> None:
    done = call(capsys, "--version")
    assert (done.code, done.out) == (0, f"jumok {__version__}\n")


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_has_its_help(capsys: Capture, verb: str) -> None:
    done = call(capsys, verb, "--help")
    assert done.code == 0
    assert f"jumok {verb}" in done.out
    assert done.err == ""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("trian",), "jumok: 'trian' is no verb of jumok; did you mean train?\n"),
        (("zzz", "--json"), "jumok: 'zzz' is no verb of jumok; known: average, check, data, "),
        (("predict", "nowhere", "안녕"), "jumok: nowhere holds no run (no recipe.toml); name a "),
    ],
)
def test_an_error_is_one_sentence_on_stderr(
    capsys: Capture, words: tuple[str, ...], sentence: str
) -> None:
    done = call(capsys, *words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(sentence)
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [("train", "--nonsense"), ("evaluate",), ("predict",), ("evaluate", "a", "b"), ("data", "x")],
)
def test_wrong_words_are_two(capsys: Capture, words: tuple[str, ...]) -> None:
    done = call(capsys, *words)
    assert (done.code, done.out) == (2, "")
    assert "usage" in done.err.lower()


@pytest.mark.parametrize(
    "words", [("--debug", "predict", "nowhere"), ("predict", "nowhere", "--debug")]
)
def test_debug_shows_where(words: tuple[str, ...]) -> None:
    done = run(*words)
    assert done.code == 2
    assert "Traceback" in done.err
    assert "nowhere holds no run" in done.err


def test_a_fault_of_jumok_s_own_is_told_as_one(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, review_run: Path
) -> None:
    """What nobody foresaw: when one is known it is mended, so here it is made."""

    def broken(*words: object) -> None:
        raise TypeError("unforeseen")

    monkeypatch.setattr("jumok.tasks.loading.load", broken)
    done = call(capsys, "predict", review_run, "안녕")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("jumok: TypeError: ")
    assert done.err.endswith("; this is a fault of jumok, --debug shows where\n")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
    ],
)
def test_too_little_memory_is_no_fault_of_jumok(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, review_run: Path, error: Exception
) -> None:
    def load(*words: object) -> None:
        raise error

    monkeypatch.setattr("jumok.tasks.loading.load", load)
    done = call(capsys, "predict", review_run, "안녕")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("jumok: there is not enough memory for this; ask for less at once")


def test_what_came_cannot_command_the_terminal(capsys: Capture, review_run: Path) -> None:
    """An escape, a bell, a sign that turns the line round, half a pair: shown, never sent."""
    for word in ("\x1b]0;title\x07", "\u202ecod.exe", "\ud800", "a\rb", "\x9b2J"):
        done = call(capsys, "evaluate", review_run, "--split", word)
        assert done.code == 2
        assert all(letter == "\n" or letter.isprintable() for letter in done.err), done.err
        assert ascii(word)[1:-1] in done.err


def test_a_word_without_measure_is_not_echoed_whole(capsys: Capture) -> None:
    done = call(capsys, "train", "x" * 100_000)
    assert done.code == 2
    assert len(done.err) < 10_000
    assert "characters left out" in done.err


def test_a_word_that_is_no_text(capsys: Capture, review_recipe: Path) -> None:
    done = call(capsys, "train", review_recipe, "name=\ud800", "--dry-run")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "jumok: 'name=\\ud800' holds half of a surrogate pair; write the word in whole characters\n"
    )


def test_a_name_that_no_file_can_have_is_told(capsys: Capture) -> None:
    for verb, words in (("predict", ["안녕"]), ("view", [])):
        done = call(capsys, verb, "각" * 300, *words)
        assert (done.code, done.out) == (3, "")
        assert done.err.count("\n") == 1
        assert "fault of jumok" not in done.err


def test_a_reader_that_has_seen_enough_is_no_error(review_run: Path) -> None:
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
        said = process.stderr.read().decode()
        assert process.wait(60) == 0
    assert said == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_the_exit_code_is_told_where_nothing_can_be_said() -> None:
    """As when a log lies on the disk that is full."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*JUMOK, "nonsense"], stderr=full, check=False, timeout=60)
    assert done.returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_answers_that_find_no_room(review_run: Path, unbuffered: str) -> None:
    """As in `jumok predict RUN 안녕 > answers.txt` on a disk that is full."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*JUMOK, "predict", str(review_run), "안녕"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
            env=environment(PYTHONUNBUFFERED=unbuffered),
        )
    assert done.returncode == 3
    assert done.stderr.decode() == (
        "jumok: stdout: No space left on device; free some space, or send the answers somewhere "
        "else\n"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_a_sentence_never_goes_to_stdout() -> None:
    """Not even where stderr is closed."""
    done = subprocess.run(
        ["sh", "-c", '"$@" 2>&-', "sh", *JUMOK, "nonsense"],
        stdout=subprocess.PIPE,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, b"")


def test_nothing_heavy_is_imported_for_help() -> None:
    code = (
        "import sys, jumok.cli; jumok.cli.help_text();"
        "print({'torch', 'numpy', 'typer', 'rich', 'pydantic'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"
