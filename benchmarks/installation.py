"""Seconds and megabytes of installing jumok from a clone, without a cache of pip.

    python benchmarks/installation.py [--torch "torch --index-url URL" | --base]

Clones this repository, builds the wheel, and installs it step by step in a new environment, as the
first lines of README.md do. --torch has the arguments of pip for PyTorch, by default its build for
CPUs, and --base ends in front of it; pip's own settings apply. The megabytes loaded are those that
pip prints. The base is also listed by package.
"""

import argparse
import os
import re
import shlex
import subprocess
import tempfile
import time
from pathlib import Path

from turns import command_line, heading

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "installation.txt"
TORCH = "torch --index-url https://download.pytorch.org/whl/cpu"
NAMED = {"numpy", "pip", "setuptools", "torch", "typer"}  # packages whose versions are stated
PAIR = "비가 많이 온다\t폭우가 쏟아진다"
# As in a new shell: no module of this environment, and the compiled code of modules is kept.
REMOVED = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV"}
ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in REMOVED}


LOADED = re.compile(r"Downloading \S+ \(([\d.]+) (kB|MB|GB)\)|Processing (\S+\.whl)")
UNITS = {"kB": 1e-3, "MB": 1.0, "GB": 1e3}


def output_of(*words: str | Path) -> str:
    """What a command writes to stdout; SystemExit with all it wrote if it fails."""
    done = subprocess.run(list(map(str, words)), env=ENVIRONMENT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{shlex.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


def loaded(output: str, folder: Path) -> float:
    """The megabytes that pip has loaded by its output, without files of our folder."""
    return sum(
        float(size) * UNITS[unit] if size else Path(path).stat().st_size / 1e6
        for size, unit, path in LOADED.findall(output)
        if not path.startswith(str(folder))
    )


def megabytes(folder: Path) -> float:
    """The size of a folder on disk, in 10^6 bytes; a file with two names counts once."""
    stats = {(s.st_dev, s.st_ino): s for s in map(Path.lstat, folder.rglob("*"))}
    return sum(each.st_blocks for each in stats.values()) * 512 / 1e6


def packages(environment: Path) -> list[tuple[float, str]]:
    """The megabytes of the folders of Python packages, the largest first."""
    (folder,) = environment.glob("lib/python*/site-packages")
    return sorted(((megabytes(each), each.name) for each in folder.iterdir()), reverse=True)


def main() -> None:
    """Install, measure, and save the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--torch", default=TORCH)
    parser.add_argument("--base", action="store_true", help="without PyTorch")
    given = parser.parse_args()
    torch = shlex.split(given.torch)
    rows, load = list[str](), os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clone, dist, environment = (folder / part for part in ("clone", "dist", "environment"))
        ENVIRONMENT["HOME"] = str(folder)
        pip: list[str | Path] = [environment / "bin" / "python", "-m", "pip", "--no-cache-dir"]

        def add(step: str, *words: str | Path) -> None:
            begin, before = time.perf_counter(), os.times()
            size = loaded(output_of(*words), folder)
            took, after = time.perf_counter() - begin, os.times()
            processor = sum(after[2:4]) - sum(before[2:4])  # of ended processes
            rows.append(
                f"{step:<40} {took:8.1f} {processor:10.1f} {size:9.0f} {size * 8 / 50:10.0f} "
                f"{megabytes(environment):8.0f}"
            )
            print(rows[-1], flush=True)

        output_of("git", "clone", "--quiet", "--depth", "1", ROOT.as_uri(), clone)
        add("python3 -m venv .venv", "python3", "-m", "venv", environment)
        build: list[str | Path] = ["wheel", "--no-deps", "--wheel-dir", dist]
        add("pip wheel --no-deps --wheel-dir dist .", *pip, *build, clone)
        (wheel,) = dist.glob("*.whl")
        add("pip install dist/jumok-*.whl", *pip, "install", wheel)
        jumok = environment / "bin" / "jumok"
        add("jumok predict ko-small-vectors", jumok, "predict", "ko-small-vectors", PAIR)
        base = [f"{size:8.1f} {name}" for size, name in packages(environment) if size >= 1]
        if not given.base:
            add(f"pip install {torch[0]}, for CPUs", *pip, "install", *torch)
            add('pip install "jumok[train]"', *pip, "install", "jumok[train]")
            add("jumok predict note", jumok, "predict", "note", "겨울은 추워요.")
        installed = output_of(*pip, "list", "--format", "freeze").split()
        python = output_of(environment / "bin" / "python", "--version").strip()
    versions = [each for each in installed if each.partition("==")[0] in NAMED]
    title = (
        f"{'step':<40} {'seconds':>8} {'processor':>10} {'MB loaded':>9} {'50 Mbit/s':>10} "
        f"{'MB disk':>8}"
    )
    top = heading(command_line()) + (
        f"installed: {', '.join([python, *versions])}; load of others {load:.1f}"
    )
    text = "\n".join([top, "", title, *rows, "", "MB of the base by package", *base])
    print(text)
    RESULTS.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
