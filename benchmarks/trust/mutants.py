"""Break attention, masks, cache, beam search and checkpoints on purpose: does a test detect it?

    python -m benchmarks.trust.mutants [--only WORDS] [--timeout SECONDS]

Each mutant (mutants.toml) replaces a pattern in one function, where it must occur exactly once, in
a temporary copy of the tree. Then the tests of the module run, and one of them must fail; a test
that does not end in time has noticed too. A survivor reveals a gap in the tests. First the same
tests run without any mutant, and must pass.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .result import Proof, parser

TREE = Path(__file__).resolve().parents[2]
FAILED, PASSED = 1, 0  # exit codes of pytest; others are errors of the run

End = Literal["killed", "killed, out of time", "survived", "error"]


@dataclass(frozen=True)
class Mutant:
    """A pattern in a function of a file, its replacement, and the tests that must detect it."""

    file: str
    function: str  # its qualified name; empty: anywhere in the file
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...]


def read_mutants() -> Iterator[Mutant]:
    """The mutants of mutants.toml."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    for module, functions in tomllib.loads(text).items():
        tests = tuple(f"tests/{test}" for test in functions.pop("tests"))
        for function, changes in functions.items():
            for old, new, breaks in changes:
                yield Mutant(f"src/jumok/{module}.py", function, old, new, breaks, tests)


class DoesNotApplyError(Exception):
    """The pattern of a mutant does not occur exactly once in its function."""


def mutated(mutant: Mutant, tree: Path = TREE) -> str:
    """The file of a mutant with its pattern replaced. Raises DoesNotApplyError."""
    text = (tree / mutant.file).read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    first, end = 0, len(lines)
    if mutant.function:
        first, end = _lines_of(mutant.function, ast.parse(text)) or (0, 0)
    inside = "".join(lines[first:end])
    pattern = r"\s+".join(map(re.escape, re.split(r"\s+", mutant.old)))
    found = list(re.finditer(pattern, inside))
    if len(found) != 1 or mutant.old == mutant.new:
        raise DoesNotApplyError(
            f"{mutant.file}: {mutant.old!r} is {len(found)} times in {mutant.function}, not once"
        )
    changed = inside[: found[0].start()] + mutant.new + inside[found[0].end() :]
    return "".join([*lines[:first], changed, *lines[end:]])


def _lines_of(function: str, tree: ast.AST) -> tuple[int, int] | None:
    """The first line of a function, from 0, and the line after it."""
    name, _, rest = function.partition(".")
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            if rest:
                return _lines_of(rest, node)
            return node.lineno - 1, node.end_lineno or node.lineno
    return None


def copy_of_the_tree(folder: Path) -> Path:
    """Copy what the tests need of the tree."""
    for name in ("src", "tests", "benchmarks", "docs"):
        shutil.copytree(TREE / name, folder / name, ignore=shutil.ignore_patterns("node_modules"))
    for path in (path for path in TREE.iterdir() if path.is_file()):
        shutil.copy2(path, folder)
    return folder


@contextmanager
def applied(mutant: Mutant, copy: Path) -> Iterator[None]:
    """Context in which the copy has the mutant."""
    path = copy / mutant.file
    before = path.read_bytes()
    path.write_text(mutated(mutant, copy), encoding="utf-8")
    try:
        yield
    finally:
        path.write_bytes(before)


def run_tests(copy: Path, tests: Sequence[str], timeout: float | None) -> tuple[End, str]:
    """Run tests in the copy: how they ended, and the first that failed."""
    locations = os.pathsep.join([str(copy / "src"), str(copy)])
    environment = os.environ | {"PYTHONPATH": locations, "PYTHONDONTWRITEBYTECODE": "1"}
    options = ("-x", "-q", "-m", "", "-n", "0", "-p", "no:cacheprovider", "--tb=line")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        return "killed, out of time", ""
    failed = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
    by = failed[1] if failed else " ".join(done.stdout.splitlines()[-3:])
    if done.returncode == PASSED:
        return "survived", ""
    return ("killed" if done.returncode == FAILED else "error"), by


def main() -> int:
    """Test all mutants and print the results."""
    words = parser("Mutants, and the tests that kill them.")
    words.add_argument("--only", default="", help="mutants whose file or line holds these words")
    words.add_argument("--timeout", type=float, default=600, help="seconds for tests to end")
    asked = words.parse_args()
    proof = Proof("mutants", "Code broken on purpose, one place at a time: a test notices.")
    mutants = [one for one in read_mutants() if asked.only in f"{one.file} {one.breaks}"]
    ends: Counter[End] = Counter()
    with tempfile.TemporaryDirectory(prefix="jumok-mutants-") as name:
        copy = copy_of_the_tree(Path(name))
        tests = sorted({test for mutant in mutants for test in mutant.tests})
        wrong = run_tests(copy, tests, None)
        for mutant in mutants if wrong[0] == "survived" else ():
            begun = time.monotonic()
            with applied(mutant, copy):
                end, by = run_tests(copy, mutant.tests, asked.timeout)
            ends[end] += 1
            location = mutant.file.removeprefix("src/jumok/")
            seconds = time.monotonic() - begun
            proof.say(f"{end:<10}{seconds:>5.0f} s  {location}: {mutant.breaks}")
            proof.say(f"{'':<19}{f'by {by}' if end != 'survived' else 'NO TEST NOTICES'}")
    killed = ends["killed"] + ends["killed, out of time"]
    proof.figures |= {"mutants": len(mutants), "killed": killed, "survived": ends["survived"]}
    proof.figures |= {"out_of_time": ends["killed, out of time"], "errors": ends["error"]}
    return proof.end(
        {
            f"without a mutant the tests pass {wrong[1]}".strip(): wrong[0] == "survived",
            f"{killed} of {len(mutants)} killed": killed == len(mutants),
        }
    )


if __name__ == "__main__":
    sys.exit(main())
