"""Measure the structure of the source: its size, its imports, its tasks and its errors.

    python scripts/structure.py [--source src/jumok] [--no-run]

A tree of an earlier commit is measured with `--source ../other/src/jumok`. Without `--no-run` a
small classifier is trained and loaded, each in a new process, and the modules that it imported are
counted.
"""

import argparse
import ast
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

RINGS = ("serving", "formats", "lab")
TASKS = (
    "classification",
    "regression",
    "multi_label_classification",
    "similarity",
    "token_classification",
    "sequence_to_sequence",
    "language_modeling",
    "masked_language_modeling",
)
CODE = re.compile(r"[a-z]+\.[a-z0-9_]+")

TRAIN = """
import sys
import jumok
rows = [{"text": f"이 영화 {i} " + w, "label": w} for i in range(40) for w in ("최고", "별로")]
recipe = sys.argv[1] + "/r.toml"
open(recipe, "w").write('task = "classification"\\n[data]\\ntext = "text"\\nlabel = "label"\\n'
    '[model]\\nd_model = 16\\nn_heads = 2\\nd_ff = 32\\nn_layers = 1\\n[vocabulary]\\nsize = 35\\n'
    '[training]\\nsteps = 2\\n')
jumok.train(recipe, data=rows, test=rows[:10], out=sys.argv[1] + "/run", model__init="")
print(sum(name.partition(".")[0] == "jumok" for name in sys.modules))
"""
LOAD = """
import sys
import jumok
jumok.load(sys.argv[1] + "/run")("이 영화 최고")
print(sum(name.partition(".")[0] == "jumok" for name in sys.modules))
"""


def main() -> None:
    """Print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, default=Path("src/jumok"))
    parser.add_argument("--no-run", action="store_true", help="count no imported modules")
    arguments = parser.parse_args()
    source = arguments.source
    files = {path: path.read_text(encoding="utf-8") for path in sorted(source.rglob("*.py"))}
    in_ring = {path: _ring(path, source) for path in files}
    _print_sizes(source, files, in_ring)
    print(f"imports of rings by the core      {_ring_imports(files, in_ring):>7,}")
    if not arguments.no_run:
        trained, loaded = _imported_modules(source)
        print(f"modules imported by jumok.train   {trained:>7,}")
        print(f"modules imported by jumok.load    {loaded:>7,}")
    _print_tasks(files)
    _print_errors(files, source)


def _ring(path: Path, source: Path) -> str | None:
    """The ring that a module belongs to; None for the core."""
    first = path.relative_to(source).parts[0]
    return first if first in RINGS else None


def _lines(paths: list[Path]) -> int:
    return sum(path.read_bytes().count(b"\n") for path in paths)


def _print_sizes(source: Path, files: dict[Path, str], in_ring: dict[Path, str | None]) -> None:
    core = [path for path in files if in_ring[path] is None]
    print(f"modules                           {len(files):>7,}")
    print(f"lines of src                      {_lines(list(files)):>7,}")
    print(f"lines of the core                 {_lines(core):>7,}")
    for ring in RINGS:
        of_ring = [path for path in files if in_ring[path] == ring]
        print(f"lines of {ring:<25}{_lines(of_ring):>7,}")
    tests = source.parents[1] / "tests"
    print(f"lines of tests                    {_lines(sorted(tests.rglob('*.py'))):>7,}")


def _imports(tree: ast.Module) -> Iterator[str]:
    """The modules of jumok that a file imports, at its top or in a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jumok"):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("jumok."))


def _ring_imports(files: dict[Path, str], in_ring: dict[Path, str | None]) -> int:
    """The imports of a module of a ring in the core, the command line aside."""
    return sum(
        name.split(".")[1] in RINGS
        for path, text in files.items()
        if in_ring[path] is None and "cli" not in path.parts
        for name in _imports(ast.parse(text))
        if "." in name
    )


def _imported_modules(source: Path) -> tuple[int, int]:
    """The modules of jumok in a process that trained a classifier, and in one that loaded it."""
    environment = {**os.environ, "PYTHONPATH": str(source.parent.resolve()), "JUMOK_LANG": "en"}
    counts = []
    with tempfile.TemporaryDirectory() as folder:
        for program in (TRAIN, LOAD):
            done = subprocess.run(
                [sys.executable, "-c", program, folder],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                check=True,
            )
            counts.append(int(done.stdout.splitlines()[-1]))
    return counts[0], counts[1]


def _print_tasks(files: dict[Path, str]) -> None:
    texts = list(files.values())
    compared = sum(len(re.findall(r"\.task (?:==|!=|in|not in) ", text)) for text in texts)
    print(f"comparisons of a task's name      {compared:>7,}")
    instances = sum(len(re.findall(r"isinstance\((?:\w+\.)*model,", text)) for text in texts)
    print(f"isinstance(model, ...)            {instances:>7,}")
    for task in TASKS:
        n = sum(f'"{task}"' in text for text in texts)
        print(f'files with "{task}"'.ljust(42) + f"{n:>3,}")


def _print_errors(files: dict[Path, str], source: Path) -> None:
    codes: set[str] = set()
    raised: Counter[str] = Counter()
    for text in files.values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and len(node.args) > 1:
                first = node.args[0]
                if isinstance(first, ast.Constant) and CODE.fullmatch(str(first.value)):
                    codes.add(str(first.value))
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                raised[ast.unparse(node.exc.func)] += 1
    tests = source.parents[1] / "tests"
    quoted = sum(
        path.read_text(encoding="utf-8").count("match=") for path in sorted(tests.rglob("*.py"))
    )
    print(f"codes of messages                 {len(codes):>7,}")
    print(f"match= in tests                   {quoted:>7,}")
    for name, n in raised.most_common(16):
        print(f"raise {name:<28}{n:>7,}")


if __name__ == "__main__":
    main()
