"""Rejects retired identifiers in code, and phrases that are not standard technical English.

    python scripts/check_words.py

`scripts/retired_words.toml` lists both: identifiers with their replacement, compared with the
names in Python and TypeScript; and phrases, as regular expressions with advice, searched in
comments, docstrings, strings and Markdown. docs/glossary.md lists the terms to use.
"""

import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LISTS = ROOT / "scripts" / "retired_words.toml"
CODE = (".py", ".ts", ".tsx")
PROSE = {tokenize.COMMENT, tokenize.STRING}


def tracked_files() -> Iterator[Path]:
    """The files of the project that are checked."""
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    skipped = tomllib.loads(LISTS.read_text(encoding="utf-8"))["skip"]
    for name in files.splitlines():
        path = ROOT / name
        if path.suffix in (*CODE, ".md") and path.is_file() and not name.startswith(tuple(skipped)):
            yield path


def python_parts(text: str) -> Iterator[tuple[int, str, bool]]:
    """The names, comments and strings of a Python file: line, text, whether it is prose.

    >>> list(python_parts("x = 1  # one"))
    [(1, 'x', False), (1, '# one', True)]
    """
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string, False
        elif token.type in PROSE:
            for number, line in enumerate(token.string.splitlines(), token.start[0]):
                yield number, line, True


def other_parts(text: str, *, code: bool) -> Iterator[tuple[int, str, bool]]:
    """The lines of a TypeScript or Markdown file, and the names of TypeScript."""
    for number, line in enumerate(text.splitlines(), 1):
        if code:
            for name in re.findall(r"[A-Za-z_]\w*", line):
                yield number, name, False
        if not code or "//" in line or "*" in line or re.search(r"[\"'`].* ", line):
            yield number, line, True


def replacement(name: str, lists: dict[str, dict[str, str]]) -> str | None:
    """What to use instead of a retired identifier; None for a valid one."""
    patterns = (new for old, new in lists["patterns"].items() if re.search(old, name))
    return lists["identifiers"].get(name) or next(patterns, None)


def faults(path: Path, lists: dict[str, dict[str, str]]) -> Iterator[str]:
    """One sentence per retired identifier or phrase."""
    text = path.read_text(encoding="utf-8")
    python = path.suffix == ".py"
    parts = python_parts(text) if python else other_parts(text, code=path.suffix in CODE)
    place = path.relative_to(ROOT)
    for line, part, is_prose in parts:
        if not is_prose and (new := replacement(part, lists)):
            yield f"{place}:{line}: {part} is retired; use {new}"
        elif is_prose:
            for phrase, advice in lists["phrases"].items():
                if found := re.search(phrase, part):
                    yield f"{place}:{line}: {found[0]!r}: {advice}"


def main() -> int:
    """Prints every fault; 1 if there are any."""
    lists = tomllib.loads(LISTS.read_text(encoding="utf-8"))
    found = [fault for path in tracked_files() for fault in faults(path, lists)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
