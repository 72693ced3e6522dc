"""A trace as a file for somebody else: a page, a picture, a table, or the trace itself."""

from pathlib import Path

from jumok.atomic_io import write_atomically
from jumok.errors import InputError
from jumok.interpret.trace import Trace
from jumok.viewer.figure_requests import FORMATS, FigureRequest, write_figure
from jumok.viewer.page import render_page
from jumok.viewer.table import attention_csv
from jumok.viewer.view_state import ViewState

ENDINGS = (".html", *(f".{ending}" for ending in FORMATS), ".csv", ".safetensors")


def export(trace: Trace, path: Path, state: str = "", full: bool = False) -> Path:
    """Write what the ending of `path` names and return the path.

    .html is the whole page (see `page.html`), .svg, .png and .pdf a figure of what `state` shows,
    .csv the weights of its head, .safetensors the trace. Raises InputError for another ending.
    """
    ending = path.suffix.lower()
    shown = ViewState.parse(state)
    if ending == ".html":
        content = render_page(trace, state, full)
    elif ending == ".csv":
        content = attention_csv(trace, shown).encode("utf-8", "replace")
    elif ending == ".safetensors":
        content = trace.to_bytes()
    elif ending[1:] in FORMATS:
        content = write_figure(trace, FigureRequest.of_state(shown, trace.info, ending[1:]))
    else:
        raise InputError(f"{path.name!r} names no kind of export; end it with {_either(ENDINGS)}")
    write_atomically(path, content)
    return path


def _either(endings: tuple[str, ...]) -> str:
    return f"{', '.join(endings[:-1])} or {endings[-1]}"
