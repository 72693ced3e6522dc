"""Run the cells of a lesson, in one namespace, and collect what they print."""

import io
import linecache
import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

import torch
from matplotlib.figure import Figure

from jumok.course.lesson import LANGUAGES, Cell, Lesson

Namespace = dict[str, object]


def run_lesson(
    lesson: Lesson,
    figures: dict[str, Figure] | None = None,
    hints: dict[str, str] | None = None,
) -> dict[str, str]:
    """What each cell prints, with the right guesses. An exception of a cell is passed on.

    Into `figures` goes what the cells `picture-...` draw, by `NAME.ko` and `NAME.en`; into `hints`
    what a reader of a cell gets without a guess.
    """
    namespace: Namespace = {"__name__": "__main__"}
    outputs = {}
    for cell in lesson.cells.values():
        name = f"{lesson.path.stem}:{cell.name}"
        if hints is not None and cell.answer is not None:
            with torch.random.fork_rng(devices=[]):  # later cells draw what they would without
                hints[cell.name] = check_guess(cell, namespace)
        if cell.is_picture and figures is not None:
            for language in LANGUAGES:
                with in_language(language):
                    outputs[cell.name] = run_cell(cell.source, namespace, name)
                figure = namespace["figure"]
                assert isinstance(figure, Figure), name
                figures[f"{cell.name.removeprefix('picture-')}.{language}"] = figure
        else:
            outputs[cell.name] = run_cell(cell.source, namespace, name)
    return outputs


@contextmanager
def in_language(language: str) -> Iterator[None]:
    """The labels of figures in a language."""
    before = os.environ.get("JUMOK_LANG")
    os.environ["JUMOK_LANG"] = language
    try:
        yield
    finally:
        os.environ.pop("JUMOK_LANG") if before is None else os.environ.update(JUMOK_LANG=before)


def run_cell(source: str, namespace: Namespace, name: str = "cell") -> str:
    r"""Run source code in a namespace; what it prints.

    >>> run_cell("print(1 + 1)", {})
    '2\n'
    """
    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(source, file, "exec"), namespace)
    return printed.getvalue()


def check_guess(cell: Cell, namespace: Namespace) -> str:
    """The hint that a reader gets who runs the cell as it is shown.

    Runs in a copy of the namespace; raises ValueError for a cell that accepts `...`.
    """
    try:
        run_cell(cell.shown, dict(namespace), cell.name)
    except AssertionError as error:
        return str(error)
    raise ValueError(f"{cell.name} must fail until the guess is filled in")
