"""Log lines on stderr; the progress bar on a terminal only."""

import os
import pty
import subprocess
import sys

import pytest

from jumok.training.reporting.progress_bar import ProgressBar, Throughput
from tests.terminals import set_size

SCRIPT = """
import time
from jumok.training.reporting.progress_bar import ProgressBar
with ProgressBar(0.25) as bar:
    bar.update(0.5, 20, 0.6931, 12345.6)
    time.sleep(0.3)  # it is redrawn ten times a second
    bar.log("epoch 1.00  [a]  dev loss 0.5", "accuracy 0.8000")
    bar.update(0.75, 30, 0.5, 12345.6)
"""


def test_only_log_lines_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar() as bar:
        bar.update(0.5, 20, 0.6931, 12345.6)
        bar.log("epoch 1.00  step 40  accuracy 0.8000", "accuracy 0.8000")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "epoch 1.00  step 40  accuracy 0.8000\n"


def test_the_bar_on_a_terminal() -> None:
    reader, terminal = pty.openpty()
    set_size(terminal, 120)
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stderr=terminal, stdout=subprocess.PIPE
    ) as process:
        os.close(terminal)
        output = b""
        try:
            while block := os.read(reader, 4096):
                output += block
        except OSError:  # Linux raises it when the other end is closed
            pass
        assert process.stdout is not None
        assert process.stdout.read() == b""
    os.close(reader)
    text = output.decode()
    assert process.returncode == 0
    for part in ("step 20", "loss 0.6931", "12,346 tokens/s", "50%", "75%"):
        assert part in text
    assert "epoch 1.00  [a]  dev loss 0.5" in text


def test_throughput_counts_tokens_and_keeps_earlier_seconds() -> None:
    throughput = Throughput(seconds_before=100.0)
    assert 100.0 <= throughput.seconds < 200.0
    throughput.count(500)
    throughput.count(500)
    first = throughput.read()
    assert first > 0
    assert throughput.read() == 0.0
