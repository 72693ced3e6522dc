"""Benchmarks keep working: names they import exist, options are parsed, the cheap ones run."""

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted(
    path.relative_to(ROOT / "benchmarks") for path in (ROOT / "benchmarks").rglob("*.py")
)
OWN = ("jumok", "tests", "benchmarks")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
NEEDS_MODULE = "ModuleNotFoundError: No module named '"

HELP = """
import os, runpy, sys
import torch, jumok.tasks.runs.train, jumok.tasks.runs.load  # once for all
sys.path.insert(0, "benchmarks")
for script in sys.argv[1:]:
    process = os.fork()
    if process == 0:
        sys.argv = [script, "--help"]
        if "/serving/" in script or "/trust/" in script:
            name = script.removesuffix(".py").removesuffix("/__main__").replace("/", ".")
            run = lambda: runpy.run_module(name, run_name="__main__")
        else:
            run = lambda: runpy.run_path(script, run_name="__main__")
        code = 0
        try:
            run()
        except SystemExit as ended:
            code = ended.code or 0
        except BaseException as error:
            print(f"{type(error).__name__}: {error}")
            code = 1
        sys.stdout.flush()
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    print(f"{script} ended with {code}", flush=True)
"""


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_imported_names_exist(script: Path) -> None:
    """Also the names that only a function imports, as those of the workers of a comparison."""
    tree = ast.parse((ROOT / "benchmarks" / script).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.level or not node.module:
            continue
        if node.module.split(".")[0] in OWN:
            module = import_module(node.module)
            for alias in node.names:
                known = hasattr(module, alias.name) or find_spec(f"{node.module}.{alias.name}")
                assert known, f"{node.module} has no {alias.name}"


def test_options_are_parsed() -> None:
    """`--help` of every script with options; a script whose peer library is missing is skipped."""
    scripts = [
        f"benchmarks/{script}"
        for script in SCRIPTS
        if "add_argument" in (ROOT / "benchmarks" / script).read_text(encoding="utf-8")
    ]
    done = run([sys.executable, "-c", HELP, *scripts], ROOT)
    assert done.returncode == 0, done.stderr
    failed = [
        line
        for before, line in pairwise(["", *done.stdout.splitlines()])
        if " ended with " in line and not line.endswith(" 0") and not is_peer_missing(before)
    ]
    assert not failed, done.stdout + done.stderr
    assert done.stdout.count(" ended with 0") > 20


def is_peer_missing(line: str) -> bool:
    return line.startswith(NEEDS_MODULE) and not line.removeprefix(NEEDS_MODULE).startswith(OWN)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the benchmarks, whose results are written into the copy."""
    folder = tmp_path_factory.mktemp("benchmarks")
    shutil.copytree(ROOT / "benchmarks", folder / "benchmarks")
    (folder / "tests").symlink_to(ROOT / "tests")
    return folder


def run(command: Sequence[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    paths = (str(ROOT / "src"), str(folder), os.environ.get("PYTHONPATH", ""))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=580
    )


@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("vector_search", ["--rows", "2000", "--widths", "16"]),
        ("translation", ["{reading_run}"]),
    ],
)
def test_a_small_measurement(
    copy: Path, reading_run: Path, script: str, arguments: list[str]
) -> None:
    words = [word.format(reading_run=reading_run) for word in arguments]
    done = run([sys.executable, f"benchmarks/{script}.py", *words], copy)
    missing = done.stderr.splitlines()[-1] if done.stderr else ""
    if done.returncode and is_peer_missing(missing):
        pytest.skip(missing)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("soak", ["--steps", "300"]),
        ("strict", ["--rounds", "1"]),
        ("fuzz", ["--total", "2000"]),
        ("every_step", ["--steps", "3"]),
        ("rerun", []),
        ("hostile", ["--only", "STACK_GLOBAL"]),
    ],
)
def test_a_short_proof(copy: Path, name: str, arguments: list[str]) -> None:
    """Those of trust that tests/training and tests/fuzz do not run, but for those of hours.

    300 steps are no slope, and one round no comparison: of two of them only the run is tested.
    """
    command = [sys.executable, "-m", f"benchmarks.trust.{name}", *arguments, "--unrecorded"]
    done = run(command, copy)
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["proof"] == name
    assert figures["good"] or name in ("soak", "strict"), done.stdout
    assert done.returncode in (0, 1), done.stderr
