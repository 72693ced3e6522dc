"""What a person watches: lines that stay on stderr, a moving one on a terminal only."""

import os
import pty
import subprocess
import sys

import pytest

from jumok.training.reporting.progress_bar import ProgressBar, Throughput

SHOWING = """
import time
from jumok.training.reporting.progress_bar import ProgressBar
with ProgressBar(0.25) as line:
    line.show(0.5, 20, 0.6931, 12345.6)
    time.sleep(0.3)  # it is drawn ten times a second
    line.say("epoch 1.00  [a]  dev loss 0.5", "accuracy 0.8000")
    line.show(0.75, 30, 0.5, 12345.6)
"""


def test_in_a_pipe_only_the_lines_that_stay(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar() as line:
        line.update(0.5, 20, 0.6931, 12345.6)
        line.log("epoch 1.00  step 40  accuracy 0.8000", "accuracy 0.8000")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "epoch 1.00  step 40  accuracy 0.8000\n"


def test_on_a_terminal_the_moving_line_tells_all() -> None:
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "120"}
    with subprocess.Popen(
        [sys.executable, "-c", SHOWING], stderr=theirs, stdout=subprocess.PIPE, env=environment
    ) as process:
        os.close(theirs)
        seen = b""
        try:
            while block := os.read(ours, 4096):
                seen += block
        except OSError:  # Linux says so when the other end is closed
            pass
        assert process.stdout is not None
        assert process.stdout.read() == b""
    os.close(ours)
    text = seen.decode()
    assert process.returncode == 0
    for word in ("step 20", "loss 0.6931", "12,346 tokens/s", "50%", "75%"):
        assert word in text
    assert "epoch 1.00  [a]  dev loss 0.5" in text


def test_speed_counts_tokens_and_keeps_the_seconds_of_before() -> None:
    speed = Throughput(seconds_before=100.0)
    assert 100.0 <= speed.seconds < 200.0
    speed.count(500)
    speed.count(500)
    first = speed.read()
    assert first > 0
    assert speed.read() == 0.0
