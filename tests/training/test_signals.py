"""The first signal sets a flag, the second terminates, and the old handlers are restored."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from jumok.training.signals import handle_signals

BOTH = [signal.SIGINT, signal.SIGTERM]

SCRIPT = """
import time
from jumok.training.signals import handle_signals
with handle_signals() as stop:
    print("ready", flush=True)
    while stop.requested is None:
        time.sleep(0.01)
    print("finishing the step", flush=True)
    time.sleep({finish})
raise SystemExit(128 + stop.requested)
"""


@pytest.mark.parametrize("number", BOTH)
def test_the_first_signal_sets_requested(number: signal.Signals) -> None:
    with handle_signals() as stop:
        assert stop.requested is None
        signal.raise_signal(number)
        assert stop.requested == number


@pytest.mark.parametrize("number", BOTH)
def test_the_old_handlers_are_restored_after_an_error(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(RuntimeError, match="in a step"), handle_signals():
        raise RuntimeError("in a step")
    assert signal.getsignal(number) == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_error_says_how_to_resume(number: signal.Signals, code: int) -> None:
    with handle_signals() as stop:
        signal.raise_signal(number)
    error = stop.interruption(40, Path("runs/나의 실험"))
    assert error.exit_code == code
    assert str(error) == (
        f"stopped by {number.name} after step 40, which is saved; "
        "to resume: jumok train --resume 'runs/나의 실험'"
    )


def test_other_threads_do_not_handle_signals() -> None:
    before = [signal.getsignal(number) for number in BOTH]
    seen: list[object] = []

    def work() -> None:
        with handle_signals() as stop:
            seen.append(stop.requested)
            seen.append([signal.getsignal(number) for number in BOTH])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [None, before]


@pytest.mark.parametrize("number", BOTH)
def test_a_process_finishes_its_step(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(finish=0)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    assert process.communicate(timeout=60)[0] == "finishing the step\n"
    assert process.returncode == 128 + number


@pytest.mark.parametrize("number", BOTH)
def test_the_second_signal_terminates(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(finish=600)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "finishing the step\n"
    process.send_signal(number)
    assert process.communicate(timeout=60) == ("", "")  # no traceback
    assert process.returncode == -number
