"""Short-lived processes, forked from one that has imported torch, and ended by signals.

Each runs `jumok.cli.main` with its own stdout and stderr, like a process started from a shell but
without the seconds of its imports.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

MAX_SECONDS = 300.0  # of one process by default

# The modules that a training imports.
PRELOADED = (
    "jumok.cli.train",
    "jumok.tasks.runs.train",
    "jumok.tasks.classification",
    "jumok.tasks.runs.api",
    "jumok.tasks.runs.examples",
    "jumok.viewer.figures.figure",
    "jumok.viewer.live_model",
    "jinja2",
    "matplotlib.backends.backend_agg",
    "matplotlib.figure",
    "matplotlib.pyplot",
    "pandas",  # of pyarrow
    "rich.console",
    "rich.markup",
    "rich.progress",
    "rich.table",
    "sentencepiece",
    "torch._dynamo",
    "torch.optim.adamw",
    "wcwidth",
)


@dataclass
class WorkerProcess:
    """A child process; `code` is its exit code, or minus the signal that ended it."""

    process: int
    log: Path
    begun: float
    patience: float = MAX_SECONDS  # seconds
    code: int | None = None

    def over(self) -> bool:
        """Whether it has ended; a process that takes too long is killed."""
        if self.code is None:
            if time.monotonic() - self.begun > self.patience:
                os.kill(self.process, signal.SIGKILL)
                self._wait(0)
                raise SystemExit(f"a life did not end within {self.patience} s; see {self.log}")
            self._wait(os.WNOHANG)
        return self.code is not None

    def end(self) -> int:
        """Wait for its end; returns the exit code."""
        while not self.over():
            time.sleep(0.002)
        assert self.code is not None
        return self.code

    def send(self, number: int) -> None:
        """Send it a signal if it is running."""
        if not self.over():
            os.kill(self.process, number)

    def for_seconds(self, seconds: float) -> None:
        """Wait for some seconds, or until it has ended."""
        until = time.monotonic() + seconds
        while not self.over() and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.002))

    def until(self, what: Callable[[], bool]) -> bool:
        """Wait until `what` is true; False when it ended before."""
        while not self.over():
            if what():
                return True
            time.sleep(0.0003)
        return False

    @property
    def said(self) -> str:
        """Its output on stdout and stderr."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def _wait(self, how: int) -> None:
        process, status = os.waitpid(self.process, how)
        if process:
            self.code = os.waitstatus_to_exitcode(status)


def preload_modules() -> None:
    """Import the modules of every process and limit libraries to one thread."""
    from importlib import import_module

    import pyarrow
    import torch

    torch.set_num_threads(1)
    pyarrow.set_cpu_count(1)
    for part in PRELOADED:
        import_module(part)
    from jumok.tasks.recipe.recipe import load_recipe

    load_recipe("nsmc", [])  # fills caches of the recipe checks


def start_jumok(
    words: Sequence[str], log: Path, first: Callable[[], None] = lambda: None
) -> WorkerProcess:
    """Start a process that runs `first`, then `jumok` with these arguments."""

    def command() -> None:
        from jumok.cli import main

        first()
        main(list(words))

    return start_process(command, log)


def start_process(action: Callable[[], None], log: Path) -> WorkerProcess:
    """Start a process that runs `action`; exit code 0, that of SystemExit, or 70."""
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process:
        return WorkerProcess(process, log, time.monotonic())
    code = 70
    try:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for number in (1, 2):
            os.dup2(out, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        action()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
