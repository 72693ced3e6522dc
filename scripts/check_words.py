"""Rejects phrases that are not standard technical English.

    python scripts/check_words.py

`scripts/phrases.toml` lists them as regular expressions with advice. They are searched in comments,
docstrings and strings of Python and TypeScript, and in Markdown. docs/glossary.md lists the terms
to use.
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
LIST = tomllib.loads((ROOT / "scripts" / "phrases.toml").read_text(encoding="utf-8"))
SUFFIXES = (".py", ".ts", ".tsx", ".md")
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
    for name in files.splitlines():
        path = ROOT / name
        if path.suffix in SUFFIXES and path.is_file() and not name.startswith(tuple(LIST["skip"])):
            yield path


def python_prose(text: str) -> Iterator[tuple[int, str]]:
    """The comments and strings of a Python file, with their lines.

    >>> list(python_prose("x = 1  # one"))
    [(1, '# one')]
    """
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in PROSE:
            yield from enumerate(token.string.splitlines(), token.start[0])


def other_prose(text: str, *, code: bool) -> Iterator[tuple[int, str]]:
    """The lines of Markdown, or those of TypeScript that have a comment or a string of words."""
    for number, line in enumerate(text.splitlines(), 1):
        if not code or "//" in line or "*" in line or re.search(r"[\"'`].* ", line):
            yield number, line


def faults(path: Path) -> Iterator[str]:
    """One sentence per phrase."""
    text = path.read_text(encoding="utf-8")
    python = path.suffix == ".py"
    prose = python_prose(text) if python else other_prose(text, code=path.suffix != ".md")
    for line, part in prose:
        for phrase, advice in LIST["phrases"].items():
            if found := re.search(phrase, part):
                yield f"{path.relative_to(ROOT)}:{line}: {found[0]!r}: {advice}"


def main() -> int:
    """Prints every fault; 1 if there are any."""
    found = [fault for path in tracked_files() for fault in faults(path)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
