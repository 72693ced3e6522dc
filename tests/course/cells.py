"""Run the cells of a lesson, in one namespace, and collect what they print."""

import io
import linecache
from contextlib import redirect_stdout

from jumok.course.lesson import Cell, Lesson

Namespace = dict[str, object]


def run_lesson(lesson: Lesson) -> dict[str, str]:
    """What each cell prints, with the right guesses. An exception of a cell is passed on."""
    namespace: Namespace = {"__name__": "__main__"}
    return {
        cell.name: run_cell(cell.source, namespace, f"{lesson.path.stem}:{cell.name}")
        for cell in lesson.cells.values()
    }


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
