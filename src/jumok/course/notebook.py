"""A lesson as a Jupyter notebook, also for Colab: its first cell installs jumok if needed."""

import hashlib
import json
from pathlib import Path
from typing import Any

from jumok.atomic_io import write_atomically
from jumok.course.lesson import Cell, Language, Lesson, TraceView
from jumok.course.plain import PlainMarkdown

INSTALL = """\
import importlib.util

if importlib.util.find_spec("jumok") is None:
    %pip install --quiet jumok-*.whl  # the wheel, in the folder of this notebook
    %pip install --quiet 'jumok[train]'"""

SHOW = """\
from jumok.course import note_trace

note_trace().show({state!r})"""


def notebook(lesson: Lesson, language: Language, *, answers: bool = False) -> dict[str, Any]:
    """The notebook as a tree of JSON (nbformat 4.5); with `answers` the guesses are filled in."""
    plain = PlainMarkdown(language)
    cells = [_code(INSTALL, "install")]
    for position, part in enumerate(lesson.parts(language)):
        if isinstance(part, Cell):
            cells.append(_code(part.source if answers else part.shown, part.name))
        elif isinstance(part, TraceView):
            cells.append(_code(SHOW.format(state=part.state), f"trace-{position}"))
        else:
            text = plain.convert(part)
            cells.append({"cell_type": "markdown", "id": _id(text), "metadata": {}, "source": text})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def write_notebook(
    lesson: Lesson, language: Language, path: Path, *, answers: bool = False
) -> Path:
    """Write the .ipynb file and return its path; with `answers` the guesses are filled in."""
    tree = notebook(lesson, language, answers=answers)
    text = json.dumps(tree, ensure_ascii=False, indent=1) + "\n"
    write_atomically(path, text.encode())
    return path


def _code(source: str, name: str) -> dict[str, Any]:
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
