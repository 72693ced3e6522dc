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


def answers(text: str) -> list[str]:
    """The JSON of a response, or of the events of a stream, which ends with [DONE]."""
    if not text.startswith("data: "):
        return [text]
    *events, done = re.findall(r"^data: (.*)$", text, re.MULTILINE)
    assert events
    assert done == "[DONE]"
    return events


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_every_curl_line_is_answered(server: Server) -> None:
    assert len(commands()) >= 10
    for command in commands():
        local = command.replace("localhost:8000", f"localhost:{server.port}")
        run = subprocess.run(["bash", "-c", local], capture_output=True, check=True)
        for content in answers(run.stdout.decode()):
            assert "error" not in json.loads(content), command
