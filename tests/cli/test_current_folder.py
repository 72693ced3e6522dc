"""No command imports a module of the current folder, in any of its processes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jumok.cli import COMMANDS
from tests.combinations import slow
from tests.serving.server_process import serving

LIBRARIES = [
    "matplotlib",
    "numpy",
    "pyarrow",
    "safetensors",
    "starlette",
    "torch",
    "typer",
    "uvicorn",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a module of every name in the standard library, and of some libraries."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "nothing").mkdir()
    (folder / "nothing" / "nothing.py").touch()
    started = subprocess.run(
        [sys.executable, "-c", "import nothing, runpy, sys; print(*sys.modules)"],
        cwd=folder / "nothing",
        capture_output=True,
        text=True,
        check=True,
    )
    before = set(started.stdout.split())  # what Python imports before the code of any program
    for name in {*sys.stdlib_module_names, *LIBRARIES} - before - {"importlib"}:
        (folder / f"{name}.py").write_text(
            f"open({str(folder / 'ran')!r}, 'a').write('{name} ')\nraise SystemExit(9)\n",
            encoding="utf-8",
        )
    return folder


def in_folder(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


@pytest.mark.parametrize(
    "command", [name if name in ("predict", "train", "view") else slow(name) for name in COMMANDS]
)
def test_no_command_imports_from_the_current_folder(folder: Path, command: str) -> None:
    done = in_folder(folder, sys.executable, "-m", "jumok", command, "--help")
    assert done.returncode == 0, done.stderr
    assert not (folder / "ran").exists(), (folder / "ran").read_text(encoding="utf-8")


def test_a_model_is_used_beside_such_modules(folder: Path) -> None:
    program = Path(sys.executable).with_name("jumok")
    start = [str(program)] if program.exists() else [sys.executable, "-m", "jumok"]
    (folder / "jumok.py").write_text((folder / "random.py").read_text(encoding="utf-8"))
    try:
        done = in_folder(folder, *start, "predict", "note", "좋다")
    finally:
        (folder / "jumok.py").unlink()
    assert done.returncode == 0, done.stderr
    assert not (folder / "ran").exists(), (folder / "ran").read_text(encoding="utf-8")


@pytest.mark.parametrize("log", ["text", slow("json")])
def test_computing_processes_do_not_import_from_the_current_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str
) -> None:
    monkeypatch.setenv("PYTHONSAFEPATH", "1")  # the front process of the test
    monkeypatch.chdir(folder)
    with serving(tmp_path, [Path("note")], log=log, workers=1) as server:
        assert server.predict("좋다").status == 200
    assert not (folder / "ran").exists(), (folder / "ran").read_text(encoding="utf-8")


@pytest.mark.slow
def test_processes_of_torchrun_do_not_import_from_the_current_folder(folder: Path) -> None:
    torchrun = shutil.which("torchrun", path=str(Path(sys.executable).parent))
    if torchrun is None:
        pytest.skip("torchrun is not installed next to this Python")
    start = (torchrun, "--standalone", "--nproc-per-node=1", "-m", "jumok")
    done = in_folder(folder, *start, "models")
    assert done.returncode == 0, done.stderr
    assert not (folder / "ran").exists(), (folder / "ran").read_text(encoding="utf-8")
