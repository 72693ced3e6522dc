"""Threads sleep next to other programs and spin on idle cores, and no result depends on it."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from jumok.torch_ops import openmp_setter
from jumok.waiting import CALM_MEASUREMENTS, USER_SETTINGS, Sample, WaitingPolicy, read_sample

STAT = """cpu  400 0 0 0 0 0 0 0 0 0
cpu{first} 100 20 30 5000 7 3 2 1 0 0
cpu99999 900 0 0 0 0 0 0 0 0 0
intr 12345 0 1
"""


def run_policy(others: Sequence[float], *, cores: int = 2, threads: int = 2) -> list[bool]:
    """Whether threads sleep after each second, in which others use that many cores and we one."""
    policy = WaitingPolicy(Sample(0.0, 0.0, 0.0))
    chosen, used = [], 0.0
    for second, each in enumerate(others, 1):
        used += 1.0 + each
        chosen.append(policy.measure(Sample(second, second, used), cores, threads))
    return chosen


def test_threads_sleep_as_soon_as_others_need_the_cores() -> None:
    assert run_policy([0.0, 0.1, 0.2, 1.0]) == [False, False, False, True]
    assert run_policy([2.0]) == [True]  # at the first measurement


def test_they_spin_again_after_some_calm() -> None:
    found = run_policy([1.0, 0.2, 0.05, 0.2] + [0.05] * CALM_MEASUREMENTS)
    assert found == [True] * (3 + CALM_MEASUREMENTS) + [False]


def test_others_may_use_the_cores_that_are_free() -> None:
    assert run_policy([1.9, 5.9, 6.5], cores=8, threads=2) == [False, False, True]
    assert run_policy([9.0], cores=8, threads=1) == [False]  # one thread waits for no other


def test_short_intervals_change_nothing() -> None:
    """Clock ticks of 10 ms are too coarse for them; they are measured with what follows."""
    policy = WaitingPolicy(Sample(0.0, 0.0, 0.0))
    assert not policy.measure(Sample(0.01, 0.0, 0.02), 2, 2)
    assert not policy.measure(Sample(1.0, 1.0, 1.0), 2, 2)
    assert not WaitingPolicy(None).measure(Sample(0.0, 0.0, 9.0), 2, 2)


def test_the_time_of_our_cores(tmp_path: Path) -> None:
    """User, nice, system, interrupts and steal; not idle, and not the cores of others."""
    stat = tmp_path / "stat"
    stat.write_text(STAT.format(first=min(os.sched_getaffinity(0))), encoding="ascii")
    sample = read_sample(stat)
    assert sample is not None
    assert sample.all == 156 / os.sysconf("SC_CLK_TCK")
    for text in ("", "cpu 1 2 3\n", "cpu0 what\n", "한글"):
        stat.write_text(text, encoding="utf-8")
        assert read_sample(stat) is None
    assert read_sample(tmp_path / "none") is None


def test_the_real_clock_counts_us_and_others() -> None:
    before = read_sample()
    assert before is not None
    sum(range(20_000_000))
    after = read_sample()
    assert after is not None
    assert 0 < after.own - before.own <= after.seconds - before.seconds + 0.1
    assert 0 <= after.others(before) <= len(os.sched_getaffinity(0)) + 0.5


def answer(code: str) -> list[object]:
    """What a new process without the settings of this one prints."""
    kept = {name: value for name, value in os.environ.items() if name not in USER_SETTINGS}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=kept | {"OMP_NUM_THREADS": "2"},
        stdout=subprocess.PIPE,
        check=True,
    )
    found: list[object] = json.loads(done.stdout)
    return found


ADAPTED = """
import json, os
from jumok.waiting import USER_SETTINGS, adapt_waiting, start_measuring, waiting
found = [waiting()]
start_measuring()
for name in USER_SETTINGS:
    os.environ[name] = "1"
    found.append((adapt_waiting(), waiting()))
    del os.environ[name]
print(json.dumps([*found, adapt_waiting(), adapt_waiting(), waiting() in ("asleep", "spinning")]))
"""


def test_settings_of_the_user_hold() -> None:
    adapted = openmp_setter() is not None
    before, *with_settings, first, second, chosen = answer(ADAPTED)
    assert before == "as set"
    assert with_settings == [[False, "as set"]] * len(USER_SETTINGS)
    assert [first, second, chosen] == [adapted] * 3


EVERY_ENTRY = """
import json, sys
from jumok import waiting
started = []
waiting.start_measuring = lambda: started.append("torch" in sys.modules)
from jumok.cli import main
try:
    main(["models"])
except SystemExit:
    pass
import jumok
sys.stdout = sys.stderr
jumok.load("note", device="cpu")
sys.stdout = sys.__stdout__
"""


def test_the_command_line_measures_before_pytorch_is_loaded() -> None:
    code = EVERY_ENTRY.replace('main(["models"])', 'sys.stdout = sys.stderr; main(["models"])')
    code += 'print(json.dumps([started, waiting.waiting() != "as set"]))'
    assert answer(code) == [[False], openmp_setter() is not None]


# The second thread of an operation waits for the next one: the processor time of a pause.
SPARE_TEAM = """
import json, os, time, torch
from jumok.waiting import _SpareTeam
torch.set_num_threads(2)
x = torch.rand(2**17)
def cost():
    begin, total = time.process_time(), 0.0
    for _ in range(25):
        total += float(x.exp().add_(x).sqrt()[-1])
        time.sleep(0.01)
    return time.process_time() - begin, total
cost()
spinning, first = cost()
team = _SpareTeam(max(len(os.sched_getaffinity(0)) - 2, 0) + 2)
asleep, second = cost()
team.end()
time.sleep(0.1)
again, third = cost()
print(json.dumps([spinning, asleep, again, first == second == third]))
"""


@pytest.mark.skipif(
    "libgomp" not in Path("/proc/self/maps").read_text(encoding="utf-8"),
    reason="PyTorch has another OpenMP runtime",
)
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_a_spare_team_shortens_the_spinning() -> None:
    *seconds, same = answer(SPARE_TEAM)
    assert same
    spinning, asleep, again = map(float, map(str, seconds))
    # Some 0.25 s and 0.03 s on idle cores; next to other programs the spinning thread gets a share.
    assert asleep < 0.6 * min(spinning, again)
