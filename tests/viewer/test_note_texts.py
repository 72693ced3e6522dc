"""The notes about numbers that a trace or a saved page leaves out have Korean on the page."""

import re
from pathlib import Path

import numpy as np

from jumok.interpret.trace import Trace
from jumok.interpret.trace_writer import _PARTS
from jumok.viewer.compact import compact_trace
from tests.viewer.random_traces import random_trace

NOTES_SOURCE = Path(__file__).parents[2] / "web" / "src" / "shell" / "notes.tsx"


def test_notes_about_left_out_numbers_have_korean(tmp_path: Path) -> None:
    notes = [part.note for part in _PARTS]
    for length, limit in ((32, 120_000), (32, 900_000), (80, 900_000)):
        content = compact_trace(random_trace(length, 12, 12, 16), [], limit)
        assert content is not None
        path = tmp_path / "small.safetensors"
        path.write_bytes(content)
        trace = Trace.open(path)
        assert trace.info.notes
        assert np.isfinite(trace.entropy("encoder")).all()
        notes += trace.info.notes
    source = NOTES_SOURCE.read_text(encoding="utf-8")
    begins = re.findall(r'^  "([A-Z][^"]+)":', source, re.MULTILINE)
    assert len(begins) >= 7
    for note in notes:
        assert any(note.startswith(begin) for begin in begins), note
