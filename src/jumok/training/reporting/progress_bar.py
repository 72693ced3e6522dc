"""The progress bar of a training: on a terminal, or in a notebook; hidden elsewhere."""

import sys
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from jumok.language import translate, translate_message
from jumok.terminal import escape_control, make_console, stderr_lines_to
from jumok.training.reporting.notebook_bar import NotebookBar, in_notebook


class ProgressBar:
    """Step, loss, score, tokens per second and remaining time, on a terminal or in a notebook.

    With `quiet` it prints nothing: of several processes only one reports.
    """

    def __init__(self, progress: float = 0.0, *, quiet: bool = False) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._console = make_console(stderr=True, quiet=quiet)
        self._bar = Progress(
            BarColumn(bar_width=30),
            TextColumn("{task.percentage:>3.0f}%  {task.description}"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,  # rich would interpret the control sequences in messages
            disable=quiet or not sys.stderr.isatty(),
        )
        self._messages = ExitStack()
        self._task = self._bar.add_task("", total=1.0)
        self._bar.update(self._task, completed=progress)
        self._score = ""
        self._notebook = NotebookBar(progress) if not quiet and in_notebook() else None

    def __enter__(self) -> Self:
        self._bar.start()
        if not self._bar.disable:
            self._messages.enter_context(stderr_lines_to(self._print))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._messages.close()
        self._bar.stop()

    def update(self, progress: float, step: int, loss: float, tokens_per_second: float) -> None:
        """Redraw the bar; `progress` is from 0 to 1."""
        template = "step {}  loss {:.4f}{}  {:,.0f} tokens/s"
        text = translate(template, step, loss, self._score, tokens_per_second)
        self._bar.update(self._task, completed=progress, description=text)
        if self._notebook is not None:
            self._notebook.update(progress, text)

    def log(self, text: str, score: str = "") -> None:
        """Print a line above the bar, on a terminal or not; the bar shows `score` from now on."""
        self._score = f"  {score}" if score else self._score
        self._print(translate_message(text))

    def _print(self, text: str) -> None:
        if self._notebook is not None:
            print(escape_control(text))  # rich would need a widget
        else:
            self._console.print(text, markup=False)


class Throughput:
    """Tokens per second since the last reading, and seconds since the start."""

    def __init__(self, seconds_before: float = 0.0) -> None:
        self._start = time.monotonic() - seconds_before
        self._last = time.monotonic()
        self._tokens = 0

    @property
    def seconds(self) -> float:
        """Seconds of training and evaluation, including those before a resume."""
        return time.monotonic() - self._start

    def count(self, tokens: int) -> None:
        """Add tokens, not counting padding."""
        self._tokens += tokens

    def read(self) -> float:
        """Tokens per second since the last reading."""
        now = time.monotonic()
        speed = self._tokens / max(now - self._last, 1e-9)
        self._last, self._tokens = now, 0
        return speed
