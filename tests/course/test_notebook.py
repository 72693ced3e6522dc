"""Lessons as notebooks: valid, and they run in Jupyter."""

import json
from pathlib import Path

import pytest

from jumok.course import LANGUAGES, Language, Lesson, find_lesson, lessons
from jumok.course.notebook import notebook, write_notebook
from tests.cli.commands import call

every_lesson = pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.path.stem)


@every_lesson
@pytest.mark.parametrize("language", LANGUAGES)
def test_notebooks_are_valid(lesson: Lesson, language: Language) -> None:
    nbformat = pytest.importorskip("nbformat")
    tree = notebook(lesson, language)
    nbformat.validate(nbformat.from_dict(tree))
    first, *rest = tree["cells"]
    assert "pip install" in first["source"]
    code = [cell["source"] for cell in rest if cell["cell_type"] == "code"]
    assert [cell.shown for cell in lesson.cells.values()] == [
        c for c in code if "note_trace" not in c
    ]
    prose = "".join(cell["source"] for cell in rest if cell["cell_type"] == "markdown")
    assert ":::" not in prose
    assert "{note}" not in prose
    assert len({cell["id"] for cell in tree["cells"]}) == len(tree["cells"])


def test_writing_one_from_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "3.ipynb"
    assert call(capsys, "lesson", "3", "--lang", "en", "--notebook", path).out.strip() == str(path)
    tree = json.loads(path.read_text(encoding="utf-8"))
    assert tree["cells"][1]["source"].startswith("# Attention in one line")
    assert write_notebook(find_lesson(3), "en", tmp_path / "b.ipynb").read_bytes() == (
        path.read_bytes()
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 3, 12, 16])
def test_a_notebook_runs(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of them, with and without pictures; test_lessons.py runs the cells of all."""
    lesson = find_lesson(number)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # other tests run at the same time
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    node = nbformat.from_dict(notebook(lesson, "ko", answers=True))
    nbclient.NotebookClient(
        node, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    printed = [
        "".join(output["text"] for output in cell.outputs if output.get("name") == "stdout")
        for cell in node.cells
        if cell.metadata.get("name") in lesson.cells
    ]
    assert printed == list(lesson.outputs.values())
