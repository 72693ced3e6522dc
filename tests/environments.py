"""New environments that hold the wheel, and what it requires of the one that runs the tests."""

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent


def run(*command: str | Path, cwd: Path, home: Path, **variables: str) -> str:
    """The output of a command in an environment without this folder."""
    done = complete(*command, cwd=cwd, home=home, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def complete(
    *command: str | Path, cwd: Path, home: Path, stdin: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """The same, with its exit code and what it wrote."""
    external = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "XDG_CACHE_HOME", "JUMOK_DATA"}
    environment = {key: value for key, value in os.environ.items() if key not in external}
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment | {"HOME": str(home)} | variables,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,  # of a wheel with its kernels
    )


def built(folder: Path, root: Path = ROOT, **variables: str) -> Path:
    """A wheel built into an existing folder."""
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation")
    run(*build, "--outdir", folder, root, cwd=folder, home=folder, **variables)
    (path,) = folder.glob("*.whl")
    return path


def install(wheel: Path, home: Path) -> Path:
    """The folder of commands of a new environment in `home` that holds the wheel.

    The dependencies of jumok are those of the environment that runs the tests; jumok itself is not,
    for an editable installation is not passed on by a path in a .pth file.
    """
    packages = _install_alone(wheel, home)
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return home / "bin"


def install_only(wheel: Path, home: Path, *others: str) -> Path:
    """The same with links to what `pip install jumok OTHERS` installs, and to nothing else.

    `others` are requirements, such as "jumok[serve]" and "torch".
    """
    packages = _install_alone(wheel, home)
    (info,) = packages.glob("jumok-*.dist-info")
    for found in _required(Distribution.at(info), others):
        tops = {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", ".")}
        for top in tops - {"__pycache__"}:
            if not (packages / top).exists():
                (packages / top).symlink_to(found.locate_file(top))
    return home / "bin"


def _install_alone(wheel: Path, home: Path) -> Path:
    """The folder of packages of a new environment that holds the wheel alone."""
    venv.create(home, symlinks=True, with_pip=False)
    pip = (sys.executable, "-m", "pip", "--python", home / "bin" / "python")
    run(*pip, "install", "--no-index", "--no-deps", wheel, cwd=home, home=home)
    (packages,) = home.glob("lib/python*/site-packages")
    return packages


def _required(jumok: Distribution, others: Iterable[str]) -> Iterable[Distribution]:
    """The distributions that jumok and others require, directly or not, without jumok."""
    found: dict[str, Distribution] = {}
    known: set[tuple[str, frozenset[str]]] = set()
    queue = [Requirement("jumok"), *map(Requirement, others)]
    while queue:
        wanted = queue.pop()
        key = wanted.name.lower(), frozenset(wanted.extras)
        if key in known:
            continue
        known.add(key)
        itself = wanted.name == "jumok"
        current = jumok if itself else distribution(wanted.name)
        if not itself:
            found[key[0]] = current
        for line in current.requires or ():
            requirement = Requirement(line)
            if requirement.marker is None or any(
                requirement.marker.evaluate({"extra": extra}) for extra in {"", *wanted.extras}
            ):
                queue.append(requirement)
    return found.values()
