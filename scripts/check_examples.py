"""Type checking of the code that users copy: README, docs, lessons and examples, with Pyright.

    python scripts/check_examples.py

The blocks of a document are checked as one module, with `NAMES` for what a reader puts in. Examples
that need a package which is not installed are left out. Editors based on Pyright then complete the
names of jumok and mark no error in copied code.
"""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = ("README.md", "README.ko.md", "docs/*.md")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
NAMES = ("attention", "attention_mask", "bertviz", "frame", "input_ids", "test_frame", "tokens")
PRELUDE = "from typing import Any\n" + "".join(f"{name}: Any = ...\n" for name in NAMES)
CONFIG = {
    "typeCheckingMode": "standard",  # the default of Pylance is "basic" or less
    "pythonVersion": "3.11",
    "reportUnusedExpression": "none",  # a notebook shows it
    "reportMissingModuleSource": "none",
}


def modules() -> Iterator[tuple[str, str]]:
    """The name and the code of each module to check."""
    for pattern in DOCUMENTS:
        for path in sorted(ROOT.glob(pattern)):
            blocks = BLOCK.findall(path.read_text(encoding="utf-8"))
            if blocks:
                yield path.stem.replace(".", "_"), "\n\n".join((PRELUDE, *blocks))
    for path in sorted((ROOT / "src/jumok/course/lessons").glob("*.py")):
        yield f"lesson_{path.stem}", path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "examples").glob("*.py")):
        code = path.read_text(encoding="utf-8")
        if all(find_spec(name) for name in imported(code)):
            yield f"example_{path.stem}", code


def imported(code: str) -> set[str]:
    """The packages that a module imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def main() -> int:
    """Check all modules; print the errors and return 1 if there are any."""
    with TemporaryDirectory() as folder:
        for name, code in modules():
            (Path(folder) / f"{name}.py").write_text(code, encoding="utf-8")
        config = CONFIG | {"extraPaths": [str(ROOT / "src")]}
        (Path(folder) / "pyrightconfig.json").write_text(json.dumps(config), encoding="utf-8")
        command = (sys.executable, "-m", "basedpyright", "--project", folder)
        return subprocess.run((*command, "--pythonpath", sys.executable), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
