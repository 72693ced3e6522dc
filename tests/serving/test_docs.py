"""The curl lines of docs/serving.md."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.serving.server_process import Server

DOCS = Path(__file__).parents[2] / "docs" / "serving.md"


def commands() -> list[str]:
    """All commands that start with curl."""
    text = DOCS.read_text(encoding="utf-8").replace("\\\n", " ")
    return re.findall(r"^curl .*$", text, re.MULTILINE)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_every_curl_line_is_answered(server: Server) -> None:
    assert len(commands()) >= 5
    for command in commands():
        local = command.replace("localhost:8000", f"localhost:{server.port}")
        run = subprocess.run(["bash", "-c", local], capture_output=True, check=True)
        assert "error" not in json.loads(run.stdout), command
