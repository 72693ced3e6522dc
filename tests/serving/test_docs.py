"""The curl lines of docs/serving.md."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving.server_process import Server, serving

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


@pytest.fixture(scope="module")
def server(
    review_run: Path, reading_run: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A classifier, and a model whose name states its languages."""
    folder = tmp_path_factory.mktemp("served")
    names = ("reviews", "koen")
    for name, run in zip(names, (review_run, reading_run), strict=True):
        (folder / name).symlink_to(run)
    with serving(tmp_path_factory.mktemp("serving"), [folder / name for name in names]) as started:
        yield started


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_every_curl_line_is_answered(server: Server) -> None:
    assert len(commands()) >= 10
    for command in commands():
        local = command.replace("localhost:8000", f"localhost:{server.port}")
        run = subprocess.run(["bash", "-c", local], capture_output=True, check=True)
        for content in answers(run.stdout.decode()):
            assert "error" not in json.loads(content), command
