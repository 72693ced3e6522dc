"""Windows and macOS, as far as Linux can imitate them: no module, function or name of POSIX only.

The workflow in .github runs the tests on those systems; it is switched on by hand.
"""

import ast
import json
import os
import re
import subprocess
import sys
import types
from collections import Counter
from pathlib import Path

import pytest
import torch
from filelock import FileLock, Timeout

import jumok
from jumok import atomic_io
from jumok.training import lock
from tests.cli.commands import environment
from tests.hf_folders import bert
from tests.other_system import POSIX_FUNCTIONS, POSIX_MODULES, POSIX_SIGNALS
from tests.source_trees import SOURCE, source_nodes, source_tree

FILES = sorted(set(SOURCE.rglob("*.py")) - set((SOURCE / "serving").rglob("*.py")))  # refused there
GUARDED = {  # behind a test that they exist
    "build.py": {"killpg"},
    "device.py": {"sysconf"},
    "library.py": {"statvfs"},
    "threads.py": {"sched_getaffinity"},
    "trusted_cache.py": {"geteuid"},
    "waiting.py": {"sched_getaffinity", "sysconf"},  # where there is a /proc/stat
}


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file functions see an `os` whose name is that of Windows."""
    here = types.ModuleType("os")
    here.__dict__.update(vars(os), name="nt")
    for module in (atomic_io, lock):
        monkeypatch.setattr(module, "os", here)


def test_posix_is_not_needed_at_import() -> None:
    for path in FILES:
        check_no_posix(path)


def check_no_posix(path: Path) -> None:
    tree = source_tree(path)
    imported = {
        name.partition(".")[0]
        for node in tree.body
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom) and not node.level
            else []
        )
    }
    assert not imported & POSIX_MODULES, path
    used = {
        (node.value.id, node.attr)
        for node in source_nodes()[path]
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    functions = {name for module, name in used if module == "os"} & POSIX_FUNCTIONS
    assert functions <= GUARDED.get(path.name, set()), path
    assert not {name for module, name in used if module == "signal"} & POSIX_SIGNALS, path


RESERVED_NAME = re.compile(  # of Windows, with any ending
    r'(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³]) *(?:\..*)?|.*[<>:"|?*\x00-\x1f].*'
    r"|(?!\.\.?$).*[. ]",
    re.IGNORECASE | re.DOTALL,
)


def test_file_names_fit_every_file_system() -> None:
    """None is reserved, too long, or equal to another but for the case of its letters."""
    names = [str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*")]
    assert [name for name, n in Counter(map(str.casefold, names)).items() if n > 1] == []
    assert max(map(len, names)) < 120
    for name in names:
        assert not any(RESERVED_NAME.fullmatch(part) for part in Path(name).parts), name


def test_a_folder_replaces_an_empty_one(windows: None, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with atomic_io.atomic_directory(tmp_path / "out") as temp:
        (temp / "README.md").write_text("a model", encoding="utf-8")
    assert os.listdir(tmp_path / "out") == ["README.md"]


def test_a_lock_is_released_before_its_file_is_deleted(
    windows: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = Path.unlink

    def of_windows(path: Path, missing_ok: bool = False) -> None:
        if path.name == lock.LOCK and path.exists():
            file_lock = FileLock(path, timeout=0)
            try:
                file_lock.acquire()
            except Timeout:
                raise PermissionError(13, "The process cannot access the file") from None
            file_lock.release()
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", of_windows)
    for _ in range(2):
        with lock.run_lock(tmp_path):
            assert lock.LOCK in os.listdir(tmp_path)
        assert os.listdir(tmp_path) == []


def imitation(platform: str, cache: Path, *commands: tuple[object, ...]) -> tuple[str, str]:
    """Standard output and error of commands in a process that imitates a platform.

    The cache is empty: Windows could not load a kernel that was compiled here.
    """
    words = json.dumps([[str(word) for word in command] for command in commands])
    done = subprocess.run(
        [sys.executable, "-m", "tests.other_system", platform, words],
        capture_output=True,
        check=False,
        timeout=240,
        env=environment() | {"XDG_CACHE_HOME": str(cache)},
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode(), done.stderr.decode()


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_commands_without_posix(platform: str, review_recipe: Path, tmp_path: Path) -> None:
    """Train, predict, evaluate, make a page and read a pickle."""
    pickled, run = tmp_path / "bert", tmp_path / "run"
    pickled.mkdir()
    bert(pickled)
    weights = jumok.load(pickled).model.state_dict()
    from safetensors.torch import load_file

    torch.save(load_file(pickled / "model.safetensors"), pickled / "pytorch_model.bin")
    (pickled / "model.safetensors").unlink()
    out, errors = imitation(
        platform,
        tmp_path / "cache",
        ("train", review_recipe, "training.steps=4", "--out", run),
        ("train", "--resume", run),
        ("predict", run, "이 영화 재미있어요", "--json"),
        ("evaluate", run, "--json"),
        ("view", run, "이 영화 재미있어요", "--export", tmp_path / "page.html"),
        ("import", pickled, tmp_path / "imported"),
        ("export", run, tmp_path / "onnx", "--to", "onnx"),
    )
    assert re.findall(r"^(\w+): (\d+)$", out, re.MULTILINE) == [
        (name, "0")
        for name in ("train", "train", "predict", "evaluate", "view", "import", "export")
    ], errors
    assert "pytorch_model.bin is read without limits on memory, time, disk and network" in errors
    assert (tmp_path / "page.html").stat().st_size > 10_000
    assert [name for name in os.listdir(run) if name.startswith(".")] == []
    imported = jumok.load(tmp_path / "imported").model.state_dict()
    assert imported.keys() == weights.keys()
    assert all(torch.equal(imported[name], weights[name]) for name in weights)
