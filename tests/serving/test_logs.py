"""`--log json`: each line of stderr is one JSON object, of the computing process too."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.serving.server_process import Server

# Loaded by every Python process of the server; the computing process warns while it starts.
WARNS = """
import sys
if "jumok.serving.worker" in " ".join(sys.orig_argv):
    import threading, time, warnings
    def warn():
        while type(sys.stderr).__name__ != "LogStream":
            time.sleep(0.01)
        warnings.warn("a warning\\nof two lines")
    threading.Thread(target=warn, daemon=True).start()
"""


def test_every_line_is_json(review_run: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WARNS, encoding="utf-8")
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    log = tmp_path / "log"

    def lines() -> list[dict[str, Any]]:
        text = log.read_text(encoding="utf-8")
        assert text.isascii()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    command = [sys.executable, "-m", "jumok", "serve", str(review_run), "--port", "0"]
    command += ["--workers", "1"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--log", "json"],
            stderr=output,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        )
    try:
        end = time.monotonic() + 120
        while not (found := [each for each in lines() if each["event"] == "listening"]):
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)
        server = Server(process, int(found[0]["address"].rstrip("/").rpartition(":")[2]), log)
        server.until_ready()
        assert server.predict("secret\n\x1b[31m가").status == 200
        assert server.request("/secret").status == 404
        server.raw(b"secret\r\n\r\n")
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    events = lines()
    assert log.read_text(encoding="utf-8").endswith("\n")
    assert {"listening", "ready", "reply", "computing", "end"} <= {each["event"] for each in events}
    assert all(isinstance(each["time"], float) for each in events)
    replies = {(each["route"], each["status"]) for each in events if each["event"] == "reply"}
    assert {("/v1/predict", 200), ("other", 404)} <= replies
    messages = [each["message"] for each in events if each["event"] == "computing"]
    assert any(message.endswith("UserWarning: a warning") for message in messages)
    assert "of two lines" in messages
    assert "secret" not in log.read_text(encoding="utf-8")
