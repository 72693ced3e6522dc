"""The progress bar of a training: on a terminal, or in a notebook; hidden elsewhere."""

import sys
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from jumok.language import localize, translate
from jumok.terminal import escape_control, original_stream, stderr_lines_to


class ProgressBar:
    """Step, loss, score, tokens per second and remaining time, on a terminal or in a notebook.

    A notebook needs ipywidgets. With `quiet` it prints nothing: of several processes only one
    reports.
    """

    def __init__(self, progress: float = 0.0, *, quiet: bool = False) -> None:
        from tqdm.auto import tqdm

        tqdm.monitor_interval = 0  # starts no thread
        self._file = original_stream(sys.stderr)  # the bar moves the cursor
        self._quiet = quiet
        self._bar = tqdm(
            total=1.0,
            initial=progress,
            file=self._file,
            disable=quiet or None,  # None: in a file or a pipe
            leave=False,
            dynamic_ncols=True,
            bar_format="{percentage:3.0f}% {bar} {desc}  {remaining}",
        )
        self._messages = ExitStack()
        self._score = ""

    def __enter__(self) -> Self:
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
        self._bar.close()

    def update(self, progress: float, step: int, loss: float, tokens_per_second: float) -> None:
        """Redraw the bar; `progress` is from 0 to 1."""
        template = "step {}  loss {:.4f}{}  {:,.0f} tokens/s"
        text = translate(template, step, loss, self._score, tokens_per_second)
        self._bar.set_description_str(escape_control(text), refresh=False)
        self._bar.update(progress - self._bar.n)

    def log(self, text: object, score: str = "") -> None:
        """Print a line above the bar, on a terminal or not; the bar shows `score` from now on."""
        self._score = f"  {score}" if score else self._score
        self._print(localize(text))

    def _print(self, text: str) -> None:
        if not self._quiet and self._file is not None:
            self._bar.write(escape_control(text), file=self._file)


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
