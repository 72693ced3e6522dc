"""The weights of a head as CSV that a spreadsheet opens in Hangul and never takes for formulas."""

import re

import numpy as np

from jumok.errors import InputError
from jumok.interpret.trace import Trace
from jumok.viewer.view_state import ViewState

BYTE_ORDER_MARK = "\ufeff"  # spreadsheets read UTF-8 for it


def attention_csv(trace: Trace, state: ViewState) -> str:
    """One line for each query and key of the head in focus: their numbers, pieces and the weight.

    Rows that are padding, and columns, are left out.
    """
    block = trace.info.block(state.block or trace.info.blocks[0].name)
    weights = trace.weights(block.name, state.layer, state.sequence)
    if not state.head < block.heads:
        raise InputError(f"head {state.head} of {block.heads}; heads count from 0")
    queries = trace.info.tokens(block.queries, state.sequence)
    keys = trace.info.tokens(block.keys, state.sequence)
    rows: list[list[str]] = [["query", "query_piece", "key", "key_piece", "weight"]]
    for t, s in np.argwhere(np.outer(queries.real, keys.real)):
        weight = f"{weights[state.head, t, s]:.9g}"
        rows.append([str(t), _text(queries.pieces[t]), str(s), _text(keys.pieces[s]), weight])
    return BYTE_ORDER_MARK + "".join(",".join(row) + "\r\n" for row in rows)


def _text(text: str) -> str:
    """A text quoted where it must be, and led by ' where a spreadsheet would compute it."""
    safe = f"'{text}" if re.match(r"[=+\-@\t\r\n]", text) else text
    quoted = safe.replace('"', '""')
    return f'"{quoted}"' if re.search(r'[",\r\n]', safe) else safe
