"""Run the tests on every Python and torch that this machine can get; the others are "not run".

    python scripts/matrix.py [--list] [--tests "tests/nn tests/models"] [--only 3.13]

Each combination gets a virtual environment under .matrix, which takes several GB where torch brings
CUDA. Pythons are looked for on PATH and among pyenv's. `--list` installs and runs nothing.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEWEST, OLDEST = "torch", "torch==2.8.0"  # OLDEST: the lower bound of pyproject.toml
COMBINATIONS = (("3.11", OLDEST), ("3.11", NEWEST), ("3.12", NEWEST), ("3.13", NEWEST))
SYSTEMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}


def find_python(version: str) -> str | None:
    """A Python of this version that starts, or None."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), sys.executable]
    candidates += [str(path) for path in sorted(pyenv.glob(f"{version}.*/bin/python"))]
    for candidate in filter(None, candidates):
        code = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run(
            [candidate, "-c", code], capture_output=True, text=True, check=False, timeout=60
        )
        if done.returncode == 0 and done.stdout.strip() == version:
            return candidate
    return None


def run(version: str, torch: str, tests: list[str]) -> str:
    """Install and test one combination; the line of the table after its name."""
    found = find_python(version)
    if found is None:
        return f"not run: Python {version} is not installed"
    folder = ROOT / ".matrix" / f"python{version}-{torch.replace('==', '-')}"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    subprocess.run([found, "-m", "venv", str(folder)], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", torch, "--editable", f"{ROOT}[dev]"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"not run: {(done.stderr.strip() or 'pip failed').splitlines()[-1][:200]}"
    workers = ["--numprocesses", "auto", "--maxprocesses", "4", "--dist", "loadfile"]
    done = subprocess.run(
        [str(python), "-m", "pytest", *workers, "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        check=False,
    )
    code = "import torch; print(torch.__version__)"
    exact = subprocess.check_output([str(python), "-c", code], text=True).strip()
    return f"torch {exact}: {'passed' if done.returncode == 0 else 'FAILED'}"


def main() -> int:
    """Print the table; 1 if a combination failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="only say what would run")
    parser.add_argument("--tests", default="", help="words for pytest; by default all quick tests")
    parser.add_argument("--only", help="one Python")
    options = parser.parse_args()
    lines = []
    for version, torch in COMBINATIONS:
        if options.only not in (None, version):
            continue
        if options.list:
            found = find_python(version)
            result = "can run" if found else f"not run: Python {version} is not installed"
        else:
            result = run(version, torch, shlex.split(options.tests))
        lines.append(f"{SYSTEMS[sys.platform]}, Python {version}, {torch}: {result}")
    for platform, name in SYSTEMS.items():
        if platform != sys.platform:
            lines.append(f"{name}: not run: this machine has {SYSTEMS[sys.platform]}")
    print("\n".join(lines))
    return int(any("FAILED" in line for line in lines))


if __name__ == "__main__":
    sys.exit(main())
