"""JUMOK_THREADS, the user's OpenMP settings and quotas decide how many threads compute."""

import json
import os
import subprocess
import sys

import pytest

from jumok import threads
from jumok.errors import InputError
from jumok.threads import available_cores, compute_threads
from tests.combinations import slow

SETTINGS = ("JUMOK_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_THREAD_LIMIT")


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)


def test_the_order_of_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compute_threads() == available_cores() <= len(os.sched_getaffinity(0))
    monkeypatch.setenv("OMP_NUM_THREADS", "7,2")
    assert compute_threads() == 7
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert compute_threads() == available_cores()
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("JUMOK_THREADS", " 3 ")
    assert compute_threads() == 3


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "1025", "9" * 5000, "²"])
def test_a_bad_setting_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUMOK_THREADS", text)
    with pytest.raises(InputError, match="JUMOK_THREADS must be a whole number from 1 to 1024"):
        compute_threads()
    done = subprocess.run(
        [sys.executable, "-m", "jumok", "models"], capture_output=True, text=True, check=False
    )
    assert done.returncode == InputError.exit_code
    assert done.stderr.startswith("jumok: JUMOK_THREADS must be")


def test_a_quota_limits_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    for quota in (0.5, 1.0, 1.9):
        monkeypatch.setattr(threads, "cpu_quota", lambda quota=quota: quota)
        assert available_cores() == 1
    monkeypatch.setattr(threads, "cpu_quota", lambda: 1000.0)
    assert available_cores() == len(os.sched_getaffinity(0))


REPORT = """
import json, os, sys
from jumok import threads
if {quota}:
    threads.cpu_quota = lambda: {quota}  # that of a container
threads.limit_threads()
assert "torch" not in sys.modules
import torch
from jumok.native.threads import kernel_threads
from jumok.device import tune_threads
tune_threads()
first = torch.get_num_threads()
torch.set_num_threads(5)
tune_threads()
print(json.dumps([os.environ.get("OMP_NUM_THREADS"), first, kernel_threads()]))
"""


@pytest.mark.parametrize(
    ("settings", "quota", "expected"),
    [
        slow({"JUMOK_THREADS": "3"}, 0, ["3", 3]),
        ({"JUMOK_THREADS": "3", "OMP_NUM_THREADS": "2"}, 0, ["2", 3]),  # that of the user remains
        slow({"OMP_NUM_THREADS": "2"}, 1, ["2", 2]),
        slow({"MKL_NUM_THREADS": "2"}, 1, [None, None]),
        ({}, 1, ["1", 1]),
    ],
)
def test_pytorch_and_the_kernel_obey(
    settings: dict[str, str], quota: int, expected: list[object]
) -> None:
    """In a new process; a number that the user sets later is not changed again."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT.format(quota=quota)],
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        check=True,
    )
    variable, first, kernel = json.loads(done.stdout)
    assert variable == expected[0]
    assert expected[1] in (first, None)
    assert kernel == 5
