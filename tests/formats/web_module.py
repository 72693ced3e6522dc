"""jumok.js in Node, for tests."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jumok.viewer.static_files import static_file

RUNNER = Path(__file__).with_name("run_web.mjs")
MIN_NODE = 20


def run_module(request: dict[str, Sequence[Any]], folder: Path) -> Any:
    """What `run_web.mjs` prints for a request; without Node the test is skipped."""
    node = shutil.which("node")
    if node is None:
        pytest.skip(f"needs Node {MIN_NODE} on the PATH")
    module = folder / "jumok.mjs"  # without a package.json, Node takes .js for CommonJS
    module.write_bytes(static_file("jumok.js").content)
    done = subprocess.run(
        [node, str(RUNNER), str(module)],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)
