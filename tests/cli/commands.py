"""Run jumok commands, in this process or in a new one."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jumok.cli import main
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.train import train

JUMOK = (sys.executable, "-m", "jumok")


@dataclass(frozen=True)
class Done:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str
    error: str | None = None  # the code of its error, of a command in this process

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Its stdout, which must be JSON lines to the last."""
        assert not self.out or self.out.endswith("\n")
        return [json.loads(line) for line in self.out.splitlines()]


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> Done:
    """Run a command in this process."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in arguments])
    captured = capsys.readouterr()
    error = getattr(ended.value.__cause__, "code", None)
    return Done(int(ended.value.code or 0), captured.out, captured.err, error)


def environment(**more: str) -> Mapping[str, str]:
    """One thread, so that other processes compute the same bits as this one."""
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"} | more


def run(*arguments: object, stdin: bytes | None = None, **more: str) -> Done:
    """Run a command in a process of its own."""
    done = subprocess.run(
        [*JUMOK, *map(str, arguments)],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        check=False,
        timeout=240,
        env=environment(**more),
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def sibling(recipe: Path, run: Path, folder: Path, *arguments: str) -> Path:
    """Another run of a recipe in `folder`, changed by the words, with the vocabulary of `run`."""
    vocabulary = f'vocabulary.file="{run / "vocabulary.model"}"'
    train(load_recipe(str(recipe), [vocabulary, *arguments]), folder)
    return folder
