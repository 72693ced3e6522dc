"""How the threads of PyTorch wait for each other: by spinning on idle cores, else asleep.

A training step has some thousand parallel operations. Between two of them the threads of libgomp,
PyTorch's OpenMP runtime, spin for some milliseconds, which is fastest while they have the cores for
themselves. Next to other programs a spinning thread takes the core from the very thread it waits
for, and a step takes ten to a hundred times as long; threads that sleep keep their share of
the cores, but on idle cores each waking costs time.

`adapt_waiting` measures what other programs take from the cores of this process, twice a second,
and chooses between both. The number of threads stays, and so do all results, bit by bit.

libgomp reads its settings once, but it spins 3,000 times less long while a process has more
OpenMP threads than cores. So a thread that has a parallel operation behind it, and then waits,
shortens the spinning of all others, until it ends.

Settings of the user hold: nothing is adapted if OMP_WAIT_POLICY, GOMP_SPINCOUNT or a variable of
KMP is set, nor where the system has no /proc/stat.
"""

import _thread
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

USER_SETTINGS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY")
STAT = Path("/proc/stat")
SECONDS = 0.5  # between two measurements
MIN_SECONDS = 0.2  # below this the clock ticks that /proc/stat counts are too few
# The cores that other programs may take before the threads sleep, and below which they spin again.
SLEEP_ABOVE, SPIN_BELOW = 0.25, 0.12
CALM_MEASUREMENTS = 2  # before they spin again
_ELEMENTS = 65_536  # for each thread of an operation that PyTorch divides among its threads


@dataclass(frozen=True)
class Sample:
    """The clock, the processor time of this process, and that of all programs on its cores."""

    seconds: float
    own: float
    all: float

    def others(self, before: "Sample") -> float:
        """The cores that other programs used since an earlier sample."""
        used = (self.all - before.all) - (self.own - before.own)
        return max(used / (self.seconds - before.seconds), 0.0)


def read_sample(stat: Path = STAT) -> Sample | None:
    """A sample of now; None where the system does not count the time of its cores."""
    try:
        cores = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        ticks = os.sysconf("SC_CLK_TCK")
        total = 0
        for line in stat.read_text(encoding="ascii").splitlines():
            name, *fields = line.split()
            if name in cores:
                user, nice, system, _, _, irq, softirq, steal = map(int, fields[:8])
                total += user + nice + system + irq + softirq + steal
    except (OSError, AttributeError, ValueError):
        return None
    return Sample(time.monotonic(), time.process_time(), total / ticks) if total else None


_start: Sample | None = None


def start_measuring() -> None:
    """Measure from now on: a program calls it first, so that its first choice has a measurement."""
    global _start  # the clock of the process
    _start = read_sample()


class WaitingPolicy:
    """Chooses how threads wait from one measurement after the other."""

    def __init__(self, start: Sample | None) -> None:
        self._last = start
        self._calm = 0
        self.asleep = False
        self.others = 0.0  # cores, in the last measurement

    def measure(self, sample: Sample, cores: int, threads: int) -> bool:
        """Whether `threads` threads on `cores` cores sleep while they wait, as of this sample."""
        before = self._last
        if before is not None and sample.seconds - before.seconds < MIN_SECONDS:
            return self.asleep
        self._last = sample
        if before is None:
            return self.asleep
        self.others = sample.others(before)
        lacking = self.others + threads - cores
        self._calm = self._calm + 1 if lacking < SPIN_BELOW else 0
        if threads > 1 and lacking > SLEEP_ABOVE:
            self.asleep = True
        elif self._calm >= CALM_MEASUREMENTS or threads <= 1:
            self.asleep = False
        return self.asleep


class _SpareTeam:
    """OpenMP threads without work, because of which the spinning of all others is short."""

    def __init__(self, threads: int) -> None:
        self._threads, self._end = threads, threading.Event()
        started = threading.Event()
        _thread.start_new_thread(self._run, (started,))
        started.wait()

    def _run(self, started: threading.Event) -> None:
        import torch

        from jumok.torch_ops import openmp_setter

        setter = openmp_setter()
        assert setter is not None, "adapt_waiting asks first"
        try:
            torch.zeros(1, device="cpu")  # the first operation of a thread sets PyTorch's number
            setter(self._threads)
            torch.zeros(self._threads * _ELEMENTS, device="cpu").add_(1)
        finally:
            started.set()
        self._end.wait()

    def end(self) -> None:
        """End the thread, and with it its team."""
        self._end.set()


class _Adapter:
    """Measures twice a second and applies the choice.

    Its threads are those of `_thread`: `threading.enumerate()` lists the user's own.
    """

    def __init__(self) -> None:
        self.policy = WaitingPolicy(_start)
        self._team: _SpareTeam | None = None
        self._apply(threading.Event())
        _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        while True:
            time.sleep(SECONDS)
            done = threading.Event()
            try:  # PyTorch returns its present number of threads in a new thread only
                _thread.start_new_thread(self._apply, (done,))
            except RuntimeError:  # the interpreter ends
                return
            done.wait()

    def _apply(self, done: threading.Event) -> None:
        """Measure once, and start or end the spare team if the choice has changed."""
        import torch

        try:
            sample = read_sample()
            if sample is None:
                return
            cores, threads = len(os.sched_getaffinity(0)), torch.get_num_threads()
            if not self.policy.measure(sample, cores, threads):
                if self._team is not None:
                    self._team.end()
                    self._team = None
            elif self._team is None:
                self._team = _SpareTeam(max(cores - threads, 0) + 2)  # its first one counts already
        finally:
            done.set()


_adapter: _Adapter | None = None
_lock = threading.Lock()


def adapt_waiting() -> bool:
    """Adapt how the threads of PyTorch wait, from the first call to the end of the process.

    Returns whether anything is adapted: not with settings of the user, on another system than Linux
    or without OpenMP.
    """
    global _adapter  # one for the process, as the threads are
    from jumok.torch_ops import openmp_setter

    if _adapter is not None:
        return True
    if any(os.environ.get(name) for name in USER_SETTINGS):
        return False
    if openmp_setter() is None or read_sample() is None:
        return False
    with _lock:
        if _adapter is None:
            _adapter = _Adapter()
    return True


def waiting() -> str:
    """How threads wait now: "asleep", "spinning", or "as set" where nothing is adapted."""
    if _adapter is None:
        return "as set"
    return "asleep" if _adapter.policy.asleep else "spinning"
