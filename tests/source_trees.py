"""The syntax trees of the source, which several tests walk: each file is parsed once."""

import ast
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "jumok"


@cache
def source_tree(path: Path) -> ast.Module:
    """The tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def source_nodes() -> dict[Path, list[ast.AST]]:
    """All nodes of each file of the source, in the order of `ast.walk`."""
    return {path: list(ast.walk(source_tree(path))) for path in sorted(SOURCE.rglob("*.py"))}
