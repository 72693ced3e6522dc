"""docs/notes.md: every section of the notes has a lesson, and every line is evaluated."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

from scripts import notes
from tests.course.cells import run_cell
from tests.shared_data import shared_data

LISTS: dict[str, dict[str, Any]] = tomllib.loads(notes.LISTS.read_text(encoding="utf-8"))


def headings(text: str, pattern: str) -> list[str]:
    """The lines outside code blocks that match."""
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    return [line.strip() for line in text.splitlines() if re.fullmatch(pattern, line)]


@pytest.mark.slow
def test_the_page_is_up_to_date() -> None:
    pytest.importorskip("einops")
    message = "run PYTHONPATH=src .venv/bin/python scripts/notes.py"
    files = notes.render(LISTS)
    assert len(files) == 6, "the page and five notebooks"
    for path, content in files.items():
        assert path.read_bytes() == content, message


@pytest.mark.parametrize("note", LISTS)
def test_every_cell_of_a_notebook_runs(note: str) -> None:
    """In this process: each line of the page, with the assert that compares it."""
    if note == "001":
        pytest.importorskip("einops")
    cells = code_cells(note)
    sections = LISTS[note]["sections"]
    asserts = [cell for cell in cells if re.search(r"^assert (not )?equal", cell, re.MULTILINE)]
    assert len(asserts) == sum("theirs" in section for section in sections)
    slips = [cell for cell in asserts if "assert not equal" in cell]
    assert len(slips) == sum("slip" in s and "theirs" in s for s in sections)
    namespace: dict[str, object] = {}
    with torch.random.fork_rng():
        for cell in cells:
            run_cell(cell, namespace)
    torch.set_grad_enabled(True)


@pytest.mark.parametrize("note", ["000", "003"])
def test_an_assert_of_a_notebook_fails_for_another_result(note: str) -> None:
    setup, *cells = code_cells(note)
    namespace: dict[str, object] = {}
    with torch.random.fork_rng():
        run_cell(setup, namespace)
    torch.set_grad_enabled(True)
    compared = next(cell for cell in cells if "\nassert equal" in cell)
    with pytest.raises(AssertionError):
        run_cell(compared, {**namespace, "theirs": torch.zeros(1)})


@pytest.mark.slow
def test_a_notebook_runs_in_jupyter(tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    node = nbformat.read(notes.NOTEBOOKS / "note-003.ipynb", as_version=4)
    nbformat.validate(node)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(node, timeout=120, kernel_name="python3", resources=resources).execute()


def code_cells(note: str) -> list[str]:
    """The code of a notebook, without the cell that installs jumok."""
    tree = json.loads((notes.NOTEBOOKS / f"note-{note}.ipynb").read_text(encoding="utf-8"))
    install, *cells = (cell for cell in tree["cells"] if cell["cell_type"] == "code")
    assert "pip install" in install["source"]
    return [cell["source"] for cell in cells]


@pytest.mark.parametrize("note", LISTS)
def test_every_section_of_a_note_has_a_lesson(note: str) -> None:
    files = list((shared_data().parent / "notes").glob(f"{note}_*.txt"))
    if not files:
        pytest.skip("needs the notes in shared/notes")
    mapped = [section["at"] for section in LISTS[note]["sections"]]
    seen = headings(files[0].read_text(encoding="utf-8"), LISTS[note]["headings"])
    assert len(seen) >= 6
    assert [line for line in seen if not any(line.startswith(at) for at in mapped)] == []
    assert [at for at in mapped if not any(line.startswith(at) for line in seen)] == []


def test_every_lesson_belongs_to_a_section() -> None:
    sections = [section for entry in LISTS.values() for section in entry["sections"]]
    assert {section["lesson"] for section in sections} == set(range(13))


def test_outputs_that_differ_without_a_slip_are_an_error() -> None:
    section = {"at": "# 1", "lesson": 1, "names": ["load"], "theirs": "1", "ours": "2"}
    with pytest.raises(ValueError, match="000 # 1: 1 is not 2"):
        list(notes.rows({"000": {"setup": "", "sections": [section]}}))
    assert notes.show(torch.zeros(2, 8, 128)) == "(2, 8, 128)"
    assert notes.show([0.25, True]) == "[0.25, True]"
