"""Completion of the command line: candidates, the scripts in real shells, and installing them."""

import os
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from jumok.cli import COMMANDS
from jumok.cli.completion import candidates, recipe_keys
from jumok.export import TARGETS
from jumok.tasks.recipe.recipe import Recipe, builtin_recipes
from tests.cli.commands import call

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with two runs and a folder that is none."""
    for name in ("runs/내 실험", "runs/영화평", "runs/빈 폴더"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("runs/내 실험", "runs/영화평"):
        (tmp_path / name / "recipe.toml").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("before", "current", "expected"),
    [
        ([], "pre", {"predict"}),
        ([], "--inst", {"--install-completion"}),
        (["train"], "numb", {"numbers"}),
        (["train", "numbers"], "training.warmup", {"training.warmup_steps="}),
        (
            ["train", "numbers"],
            "model.kind=enc",
            {"model.kind=encoder", "model.kind=encoder_decoder"},
        ),
        (
            ["train", "numbers"],
            "training.compile=",
            {"training.compile=true", "training.compile=false"},
        ),
        (["train"], "--dry", {"--dry-run"}),
        (["train", "--log"], "", {"tensorboard"}),
        (["predict"], "runs/", {"runs/내 실험", "runs/영화평"}),
        (["predict"], "runs/영", {"runs/영화평"}),
        (["predict"], "no", {"note"}),
        (["predict", "runs/영화평"], "", set()),  # a text
        (["predict", "runs/영화평", "--with"], "runs/내", {"runs/내 실험"}),
        (["vocab"], "tr", {"train"}),
        (["vocab", "train", "--kind"], "", {"unigram", "bpe", "char"}),
        (["data", "get"], "nsmc-", {"nsmc-text"}),
        (["export", "runs/영화평", "out", "--to"], "ct", {"ctranslate2"}),
        (["export", "runs/영화평", "out"], "--to=gg", {"gguf"}),
        (["compare", "runs/영화평"], "runs/", {"runs/내 실험", "runs/영화평"}),
        (["compare", "runs/영화평", "--with"], "runs/내", {"runs/내 실험"}),
        (["table"], "runs/영", {"runs/영화평"}),
        (["sweep"], "numb", {"numbers"}),
        (["sweep", "numbers"], "training.warmup", {"training.warmup_steps="}),
        (["train", "--resume"], "runs/영", {"runs/영화평"}),
        (["serve"], "runs/영", {"runs/영화평"}),
        (["import"], "--rev", {"--revision"}),
        (["nosuch"], "", set()),
    ],
)
def test_candidates(before: list[str], current: str, expected: set[str], runs: Path) -> None:
    assert set(candidates(before, current)) == expected


def test_every_command_and_recipe_is_a_candidate(runs: Path) -> None:
    assert {*COMMANDS} <= {*candidates([], "")}
    assert {*candidates(["train"], "")} == {*builtin_recipes()}
    for name in COMMANDS:
        assert candidates([name], "--he") == ["--help"]


def test_every_subcommand_is_a_candidate() -> None:
    for name, subcommands in {
        "data": {"list", "get", "build", "assemble", "verify"},
        "vocab": {"add", "train", "encode", "decode", "report"},
        "plot": {"positions", "history", "attention"},
    }.items():
        assert subcommands <= {*candidates([name], "")}


def test_every_export_format_is_a_candidate() -> None:
    found = candidates(["export", "runs/a", "out", "--to"], "")
    assert found == list(TARGETS.names())
    assert "gguf" in found


def test_keys_of_recipes() -> None:
    keys = recipe_keys()
    tables = {key.split(".")[0].rstrip("=") for key in keys}
    assert tables == {field.name for field in fields(Recipe)}
    assert {"rotary", "sinusoidal", "learned"} <= {*keys["model.positions="]}
    assert keys["training.compile="] == ["true", "false"]


def test_the_keys_are_cached(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(runs / "cache"))
    first = candidates(["train", "numbers"], "training.")
    code = (
        "import sys; from jumok.cli.completion import candidates;"
        "print(*candidates(['train', 'numbers'], 'training.'), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [*first, "False"]
    (runs / "cache/jumok/completion/recipe_keys.json").write_text("damaged")
    assert candidates(["train", "numbers"], "training.") == first


def _bash(folder: Path, line: str, home: Path) -> list[str]:
    """What a real bash completes at the end of a line."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    command = tools / "jumok"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m jumok "$@"\n')
    command.chmod(0o755)
    script = (
        "source <(jumok --show-completion bash)\n"
        f"COMP_LINE={_shell(line)}; COMP_POINT=${{#COMP_LINE}}\n"
        'words=$(echo "$COMP_LINE" | sed "s/=/ = /g"); eval "COMP_WORDS=($(echo "$words" '
        "| sed 's/\\\\\\\\/\\\\\\\\\\\\\\\\/g'))\"\n"
        '[[ $COMP_LINE == *" " ]] && COMP_WORDS+=("")\n'
        "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
        "_jumok_completion 2>/dev/null\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    environment = os.environ | {
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
    }
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        cwd=folder,
    )
    return [found for found in done.stdout.split("\n") if found]


def _shell(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.slow
def test_a_real_bash(runs: Path) -> None:
    assert _bash(runs, "jumok pred", runs) == ["predict"]
    assert _bash(runs, "jumok predict runs/영", runs) == ["runs/영화평"]
    assert _bash(runs, "jumok predict runs/내", runs) == ["runs/내\\ 실험"]
    assert _bash(runs, "jumok predict runs/", runs) == ["runs/내\\ 실험", "runs/영화평"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_keys_in_a_real_bash(runs: Path) -> None:
    assert _bash(runs, "jumok train numbers training.warmup", runs) == ["training.warmup_steps="]
    assert _bash(runs, "jumok train numbers model.kind=enc", runs) == ["encoder", "encoder_decoder"]
    assert _bash(runs, "jumok predict runs/영화평 그냥", runs) == []


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal")
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.slow
def test_the_tab_key_in_an_interactive_bash(runs: Path) -> None:
    """The whole way: a terminal, readline, the installed script, a run with Hangul and a space."""
    import pty
    import select
    import time

    tools = runs / "bin"
    tools.mkdir()
    (tools / "jumok").write_text(f'#!/bin/sh\nexec {sys.executable} -m jumok "$@"\n')
    (tools / "jumok").chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(runs),
        "LC_ALL": "C.UTF-8",
        "TERM": "dumb",
    }
    environment.pop("XDG_DATA_HOME", None)
    (runs / ".bashrc").write_text("PS1='ready> '\n")
    subprocess.run(
        [str(tools / "jumok"), "--install-completion", "bash"], env=environment, check=True
    )
    child, master = pty.fork()
    if child == 0:
        os.execvpe("bash", ["bash", "-i"], environment)
    seen = b""

    def read_until(awaited: str, seconds: float = 60) -> bool:
        nonlocal seen
        end = time.monotonic() + seconds
        while awaited.encode() not in seen and time.monotonic() < end:
            if select.select([master], [], [], 0.2)[0]:
                seen += os.read(master, 65536)
        return awaited.encode() in seen

    try:
        assert read_until("ready> "), seen.decode()
        seen = b""
        os.write(master, "echo jumok-ready; jumok predict runs/내\t".encode())
        assert read_until("runs/내\\ 실험"), seen.decode()
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(master)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_install(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / ".bashrc").write_text("alias ㅋ=ls")  # without a line break
    for _ in range(2):  # the second time changes nothing
        done = call(capsys, "--install-completion")
        assert done.code == 0
    place = Path(done.err.partition(" is in ")[2].partition(";")[0])
    assert place.read_text() == call(capsys, "--show-completion", shell).out
    if shell == "bash":
        assert (tmp_path / ".bashrc").read_text() == f"alias ㅋ=ls\nsource {place}\n"
    if shell == "zsh":
        assert (tmp_path / ".zshrc").read_text().count("compinit; compinit") == 1


def test_an_unknown_shell(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("SHELL", "/bin/csh")
    done = call(capsys, "--install-completion")
    assert done.code == 2
    assert "the shell is not known; give its name: jumok --install-completion bash" in done.err
    done = call(capsys, "--show-completion", "csh")
    assert done.code == 2
    assert "unknown shell 'csh'; give bash, zsh or fish" in done.err


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_script_is_valid_in_its_shell(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    from jumok.cli.completion import SCRIPTS

    subprocess.run([shell, "-n"], input=SCRIPTS[shell], text=True, check=True)
