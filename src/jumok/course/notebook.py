"""A lesson as a Jupyter notebook, also for Colab: its first cell installs jumok if needed."""

import hashlib
import json
from pathlib import Path
from typing import Any, TypeAlias

from jumok.atomic_io import write_atomically
from jumok.course.lesson import Cell, Language, Lesson, TraceView
from jumok.course.plain import PlainMarkdown

Tree: TypeAlias = dict[str, Any]  # JSON

INSTALL = """\
import importlib.util

if importlib.util.find_spec("jumok") is None:
    %pip install --quiet jumok-*.whl  # the wheel, in the folder of this notebook
    %pip install --quiet 'jumok[train]'"""

SHOW = """\
from jumok.course import note_trace

note_trace().show({state!r}, live=True)"""


def notebook(lesson: Lesson, language: Language, *, answers: bool = False) -> Tree:
    """The notebook as a tree of JSON (nbformat 4.5); with `answers` the guesses are filled in."""
    plain = PlainMarkdown(language)
    cells = [code_cell(INSTALL, "install")]
    for position, part in enumerate(lesson.parts(language)):
        if isinstance(part, Cell):
            cells.append(code_cell(part.source if answers else part.shown, part.name))
        elif isinstance(part, TraceView):
            state = f"{part.state}&lang={language}"
            cells.append(code_cell(SHOW.format(state=state), f"trace-{position}"))
        else:
            cells.append(text_cell(plain.convert(part)))
    return with_kernel(cells)


def write_notebook(
    lesson: Lesson, language: Language, path: Path, *, answers: bool = False
) -> Path:
    """Write the .ipynb file and return its path; with `answers` the guesses are filled in."""
    tree = notebook(lesson, language, answers=answers)
    write_atomically(path, notebook_bytes(tree))
    return path


def with_kernel(cells: list[Tree]) -> Tree:
    """A notebook of some cells, for Python 3."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def notebook_bytes(tree: Tree) -> bytes:
    """The content of the .ipynb file."""
    return (json.dumps(tree, ensure_ascii=False, indent=1) + "\n").encode()


def text_cell(markdown: str) -> Tree:
    """A cell of Markdown."""
    return {"cell_type": "markdown", "id": _id(markdown), "metadata": {}, "source": markdown}


def code_cell(source: str, name: str) -> Tree:
    """A cell of code that has not run; each name occurs once in a notebook."""
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": _id(name),
        "metadata": {"name": name},
        "outputs": [],
        "source": source,
    }


def _id(text: str) -> str:
    """A cell id: 1 to 64 letters and digits, the same each time."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
