"""A trace in a notebook: the page in a frame, and a picture where frames are not shown."""

import base64
from contextlib import suppress
from dataclasses import replace
from html import escape

from jumok.errors import InputError
from jumok.interpret.trace import Trace
from jumok.viewer.figure_requests import FIGURE_OF_VIEW, FigureRequest, write_figure
from jumok.viewer.page import render_page
from jumok.viewer.view_state import ViewState, normalize_state

HEIGHT = 640  # pixels of the frame


class Display:
    """What a cell that ends with `trace.show()` shows; in a terminal, how to see the page.

    The frame is sandboxed without an origin: what runs in it can neither reach the notebook nor
    keep anything. Viewers that strip frames, GitHub among them, show the picture.
    """

    def __init__(self, trace: Trace, state: str = "", full: bool = False) -> None:
        self._trace, self._state, self._full = trace, normalize_state(state), full
        self._shown = ViewState.parse(self._state)

    def __repr__(self) -> str:
        return (
            f"{self._trace!r}\n"
            'To see it: the last line of a notebook cell, trace.html("page.html"), or '
            'trace.save("a.safetensors") and `jumok view a.safetensors`.'
        )

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> tuple[dict[str, str], dict[str, object]]:
        """The same in plain text, as HTML and, if it can be drawn, as a picture; for Jupyter."""
        bundle = {"text/plain": repr(self), "text/html": self._frame()}
        with suppress(InputError):  # some views of a small trace are a sentence, not a figure
            bundle["image/png"] = base64.b64encode(self._png()).decode("ascii")
        return bundle, {}

    def _png(self) -> bytes:
        """A figure like what the page shows first. Raises InputError where there is none."""
        view = self._shown.view if self._shown.view in FIGURE_OF_VIEW else ViewState.view
        shown = FigureRequest.of_state(replace(self._shown, view=view), self._trace.info, "png")
        return write_figure(self._trace, replace(shown, width=6.9))

    def _frame(self) -> str:
        page = render_page(self._trace, self._state, self._full).decode()
        return (
            f'<iframe sandbox="allow-scripts allow-downloads" width="100%" height="{HEIGHT}" '
            f'style="border: 0" title="jumok" srcdoc="{escape(page, quote=True)}"></iframe>'
        )


def show(trace: Trace, state: str = "", full: bool = False) -> Display:
    """The page of a trace for a notebook; `state` and `full` as in `page.html`."""
    return Display(trace, state, full)
