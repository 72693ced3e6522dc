"""Export a trace: the page, a figure, a CSV table of weights, or the trace itself."""

import re
from pathlib import Path

import numpy as np

from jumok.atomic_io import write_atomically
from jumok.errors import TraceError
from jumok.interpret.schema import check_index
from jumok.interpret.trace import Trace
from jumok.viewer.figure_requests import FORMATS, FigureRequest, write_figure
from jumok.viewer.page import render_page
from jumok.viewer.view_state import ViewState

SUFFIXES = (".html", *(f".{name}" for name in FORMATS), ".csv", ".safetensors")
BYTE_ORDER_MARK = "\ufeff"  # marks UTF-8 for spreadsheets


def export(
    trace: Trace, path: Path, state: str = "", full: bool = False, live: bool = False
) -> Path:
    """Write the file that the suffix of `path` names and return the path.

    .html is the page (see `render_page`), .svg, .png and .pdf a figure of what `state` shows, .csv
    the weights of its head, .safetensors the trace. Raises InputError for another suffix.
    """
    suffix = path.suffix.lower()
    shown = ViewState.parse(state)
    if suffix == ".html":
        content = render_page(trace, state, full, live)
    elif suffix == ".csv":
        content = attention_csv(trace, shown).encode("utf-8", "replace")
    elif suffix == ".safetensors":
        content = trace.to_bytes()
    elif suffix[1:] in FORMATS:
        content = write_figure(trace, FigureRequest.of_state(shown, trace.info, suffix[1:]))
    else:
        known = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
        raise TraceError(
            "page.unknown_export_suffix",
            "export files must end with {known}, got {path!r}",
            known=known,
            path=path.name,
        )
    write_atomically(path, content)
    return path


def attention_csv(trace: Trace, state: ViewState) -> str:
    """One line per query and key of the head in focus: their indices, pieces and the weight.

    Padding is left out.
    """
    block = trace.info.block(state.block or trace.info.blocks[0].name)
    weights = trace.weights(block.name, state.layer_in(block.layers), state.sequence)
    check_index("head", state.head, block.heads)
    queries = trace.info.tokens(block.queries, state.sequence)
    keys = trace.info.tokens(block.keys, state.sequence)
    rows: list[list[str]] = [["query", "query_piece", "key", "key_piece", "weight"]]
    for t, s in np.argwhere(np.outer(queries.real, keys.real)):
        weight = f"{weights[state.head, t, s]:.9g}"
        rows.append([str(t), _cell(queries.pieces[t]), str(s), _cell(keys.pieces[s]), weight])
    return BYTE_ORDER_MARK + "".join(",".join(row) + "\r\n" for row in rows)


def _cell(text: str) -> str:
    """A cell, quoted if necessary; a leading ' keeps spreadsheets from evaluating formulas."""
    safe = f"'{text}" if re.match(r"[=+\-@\t\r\n]", text) else text
    quoted = safe.replace('"', '""')
    return f'"{quoted}"' if re.search(r'[",\r\n]', safe) else safe
