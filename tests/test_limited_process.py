"""run_program: the result of a program, its limits, and what it gets of the environment."""

import tempfile
from pathlib import Path

import pytest

from jumok.errors import InputError
from jumok.limited_process import ProgramError, run_program


def result(folder: Path, code: str) -> dict[str, object]:
    program = folder / "program.py"
    program.write_text(code)
    with tempfile.TemporaryFile() as file:
        file.write(b"in")
        file.seek(0)
        return run_program(program, ["a"], stdin=file, timeout=20)


def test_the_result_is_a_json_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s")
    code = (
        "import json, os, sys\n"
        "print(json.dumps({'in': sys.stdin.read(), 'arguments': sys.argv[1:],"
        " 'secret': os.environ.get('SECRET'), 'home': os.environ.get('HOME')}))"
    )
    expected = {"in": "in", "arguments": ["a"], "secret": None, "home": None}
    assert result(tmp_path, code) == expected


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise SystemExit(3)", r"exceeded its limits \(code 3\)"),
        ("import os; os.kill(os.getpid(), 9)", r"exceeded its limits \(code -9\)"),
        ('print(\'{"error": "a reason"}\')', "a reason"),
    ],
)
def test_no_result(code: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=reason):
        result(tmp_path, code)


def test_a_program_that_does_not_end(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import time; time.sleep(60)")
    with tempfile.TemporaryFile() as file, pytest.raises(ProgramError, match="code timeout"):
        run_program(program, stdin=file, timeout=1)


def test_invalid_output(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not usable JSON"):
        result(tmp_path, "print('[]')")
