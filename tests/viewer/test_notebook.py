"""The display in a notebook: plain text, an image, and the page in a sandboxed frame."""

import base64
import json
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from jumok.errors import InputError
from jumok.interpret.bertviz import from_attention
from jumok.viewer.notebook import Display
from jumok.viewer.page import render_page
from tests.errors import raises
from tests.viewer.random_traces import HOSTILE, random_trace


class Frames(HTMLParser):
    """The attributes of every element."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def bundle(shown: object) -> dict[str, str]:
    assert isinstance(shown, Display)
    data, metadata = shown._repr_mimebundle_()
    assert metadata == {}
    return data


def test_a_cell_shows_the_page_in_a_sandbox() -> None:
    trace = random_trace(title=HOSTILE[0], pieces=HOSTILE)
    frames = Frames()
    frames.feed(bundle(trace.show("v=matrix"))["text/html"])
    ((tag, given),) = frames.found
    assert tag == "iframe"
    assert given["sandbox"] == "allow-scripts allow-downloads"
    assert given["srcdoc"] == render_page(trace, "v=matrix").decode()


def test_viewers_without_frames_show_a_picture() -> None:
    for state in ("", "v=calculation", "v=neuron&L=1&q=2"):
        data = bundle(random_trace().show(state))
        assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")


def test_without_a_figure_the_page_is_shown_alone() -> None:
    weights = np.array([[[[1.0, 0.0], [0.5, 0.5]]]], np.float32)
    alone = from_attention([weights], ["▁겨울", "은"])
    for trace, state in (
        (alone, "v=neuron"),
        (random_trace(), "v=alignment"),
        (random_trace(), "v=explanation"),
    ):
        data = bundle(trace.show(state))
        assert "image/png" not in data
        assert data["text/html"].startswith("<iframe")


CELL = """
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from tests.viewer.random_traces import random_trace

InteractiveShell.instance(history_manager=None)
with capture_output() as found:
    results = [random_trace().show() for _ in range(2)]
print(results, ["text/html" in each.data for each in found.outputs])
"""


def test_a_notebook_displays_at_once() -> None:
    """Also in a loop or before the last line of a cell."""
    pytest.importorskip("IPython")
    done = subprocess.run([sys.executable, "-c", CELL], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[None, None] [True, True]"


def test_a_terminal_shows_a_hint() -> None:
    shown = repr(random_trace().show())
    assert "jumok view" in shown
    assert bundle(random_trace().show())["text/plain"] == shown


def test_the_bundle_is_json() -> None:
    data = bundle(random_trace(pieces=HOSTILE).show())
    assert json.loads(json.dumps(data)) == data


def test_an_invalid_state_raises_at_once() -> None:
    with raises(InputError, "page.not_a_whole_number"):
        random_trace().show("L=first")
