"""The progress bar of a training in a notebook: one display that is updated in place."""

import sys
import time
from html import escape
from typing import Any, Protocol, cast

from jumok.language import translate

REDRAW_SECONDS = 0.2  # at most so often: each redraw is a message to the browser
NOTEBOOK_SHELLS = ("ZMQInteractiveShell", "Shell")  # Jupyter; Colab


class _Handle(Protocol):
    def update(self, obj: object) -> None: ...


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, which displays HTML."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ in NOTEBOOK_SHELLS


class NotebookBar:
    """A `<progress>` element with a line of text; for a kernel with IPython."""

    def __init__(self, progress: float) -> None:
        self.progress, self.text = progress, ""
        self._handle: _Handle | None = None
        self._drawn = 0.0
        self._start = time.monotonic(), progress

    def update(self, progress: float, text: str) -> None:
        """Redraw the bar, unless it was drawn a moment ago; `progress` is from 0 to 1."""
        self.progress, self.text = progress, text
        if time.monotonic() - self._drawn >= REDRAW_SECONDS or progress >= 1.0:
            self._draw()

    def _draw(self) -> None:
        from IPython.display import display

        self._drawn = time.monotonic()
        if self._handle is None:
            self._handle = cast(_Handle, cast(Any, display)(self, display_id=True))
        else:
            self._handle.update(self)

    def _seconds_left(self) -> float | None:
        start, before = self._start
        done = self.progress - before
        return (time.monotonic() - start) * (1 - self.progress) / done if done > 0 else None

    def __repr__(self) -> str:
        left = self._seconds_left()
        remaining = "" if left is None else translate("  {:,.0f} s left", left)
        return f"{self.progress:>4.0%}  {self.text}{remaining}"

    def _repr_html_(self) -> str:
        return (
            f'<progress value="{self.progress:.4f}" max="1" style="width: 16em"></progress> '
            f"<code>{escape(repr(self))}</code>"
        )
