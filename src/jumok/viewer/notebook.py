"""A trace in a notebook: the page in a frame, and an image as a fallback."""

import base64
import sys
from contextlib import suppress
from dataclasses import replace
from html import escape

from jumok.errors import InputError
from jumok.interpret.trace import Trace
from jumok.viewer.figure_requests import FIGURE_OF_VIEW, FigureRequest, write_figure
from jumok.viewer.page import render_page
from jumok.viewer.view_state import ViewState, normalize_state

HEIGHT = 640  # pixels


class Display:
    """What `trace.show()` displays in a notebook cell; elsewhere a hint.

    The frame is sandboxed without an origin: it can neither access the notebook nor store data.
    Viewers that strip frames, such as GitHub, show the image.
    """

    def __init__(
        self, trace: Trace, state: str = "", full: bool = False, live: bool = False
    ) -> None:
        self._trace, self._state = trace, normalize_state(state)
        self._full, self._live = full, live
        self._shown = ViewState.parse(self._state)

    def __repr__(self) -> str:
        return (
            f"{self._trace!r}\n"
            'To see it: trace.show() in a notebook, trace.html("page.html"), or '
            'trace.save("a.safetensors") and `jumok view a.safetensors`.'
        )

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> tuple[dict[str, str], dict[str, object]]:
        """Plain text, HTML and, if a figure exists, an image; for Jupyter."""
        bundle = {"text/plain": repr(self), "text/html": self._frame()}
        with suppress(InputError):  # some views have no figure
            bundle["image/png"] = base64.b64encode(self._png()).decode("ascii")
        return bundle, {}

    def _png(self) -> bytes:
        """The figure of the initial view. Raises InputError if there is none."""
        view = self._shown.view if self._shown.view in FIGURE_OF_VIEW else ViewState.view
        shown = FigureRequest.of_state(replace(self._shown, view=view), self._trace.info, "png")
        return write_figure(self._trace, replace(shown, width=6.9))

    def _frame(self) -> str:
        page = render_page(self._trace, self._state, self._full, self._live).decode()
        return (
            f'<iframe sandbox="allow-scripts allow-downloads" width="100%" height="{HEIGHT}" '
            f'style="border: 0" title="jumok" srcdoc="{escape(page, quote=True)}"></iframe>'
        )


def show(trace: Trace, state: str = "", full: bool = False, live: bool = False) -> Display | None:
    """Display a trace at once in a notebook cell, else return a hint; see `render_page`."""
    shown = Display(trace, state, full, live)
    ipython = sys.modules.get("IPython")  # imported by the kernel of a notebook
    if ipython is None or ipython.get_ipython() is None:
        return shown
    from IPython.display import display

    display(shown)  # type: ignore[no-untyped-call]
    return None
