"""Writes docs/notes.md, the five notes section by section with our lines, and a notebook of each.

    PYTHONPATH=src .venv/bin/python scripts/notes.py [--check]

scripts/notes.toml lists the sections. The expressions of a note and of jumok are evaluated with
the same tensors; they must be equal, or a slip must explain the difference. docs/notebooks has the
same lines as cells, with an `assert` for each pair. `--check` compares instead of writing.
"""

import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from jumok.course import find_lesson, lessons
from jumok.course.notebook import INSTALL, code_cell, notebook_bytes, text_cell, with_kernel
from jumok.nn import record

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "notes.md"
NOTEBOOKS = ROOT / "docs" / "notebooks"
LISTS = ROOT / "scripts" / "notes.toml"
LESSONS = "../src/jumok/course/lessons"
MAX_SHOWN = 12  # numbers; of a larger tensor the shape is shown
TOLERANCE = 1e-5

INTRO = (
    "# 노트에서 jumok으로\n\n"
    "이 프로젝트는 트랜스포머를 공부하며 쓴 노트 다섯 권에서 시작했습니다. "
    "노트의 절마다 그것을 다루는 강의와 jumok의 코드를 적었습니다. "
    "두 식은 같은 텐서로 계산했고, 출력이 같으면 한 번만 적었습니다. "
    "큰 텐서는 모양만 적었습니다. 노트의 실수도 그대로 실행해 보았습니다.\n\n"
    "*Five Korean notes about the Transformer were the start of this project. For each of their "
    "sections the tables list the lesson and the code of jumok, with the output of both; a single "
    "output means that they agree, and a large tensor is shown by its shape. "
    "`scripts/notes.py` evaluates every line and writes this page.*\n"
)


NOTEBOOK_INTRO = """\
# 노트 {note}: {title}

노트의 절마다 노트의 셀과 jumok의 셀이 나란히 있습니다. 둘을 실행하고 `assert`로 비교합니다. \
노트의 셀이 실수인 곳에는 **실수**라고 적었고, 두 결과가 다르다는 것을 확인합니다. \
노트가 앞에서 만든 변수는 첫 셀에 모았습니다.

*For each section of note {note}, its cell and that of jumok, compared by an `assert`. Where the \
cell is a slip of the note, this is said and the results differ. The first cell has the variables \
that the note made before.*"""

PRELUDE = """\
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from jumok import record

torch.manual_seed(0)
torch.set_grad_enabled(False)


def recorded(model, call):
    with record(model) as weights:
        call()
    [found] = weights.values()
    return found[0]


def equal(theirs, ours):
    if isinstance(theirs, torch.Tensor) and isinstance(ours, torch.Tensor):
        same = theirs.shape == ours.shape
        return same and torch.allclose(theirs.double(), ours.double(), atol=1e-5)
    return theirs == ours

"""

FAILING = """\
try:
    theirs = {cell}
except AttributeError as error:
    theirs = error
theirs"""


@dataclass(frozen=True)
class Row:
    """A section of a note, and what both expressions gave."""

    note: str
    section: dict[str, Any]
    theirs: object = None
    ours: object = None

    @property
    def agree(self) -> bool:
        """Whether both outputs are equal within the tolerance."""
        if isinstance(self.theirs, torch.Tensor) and isinstance(self.ours, torch.Tensor):
            theirs, ours = self.theirs.double(), self.ours.double()
            return theirs.shape == ours.shape and torch.allclose(theirs, ours, atol=TOLERANCE)
        return self.theirs == self.ours


def defining_module(name: str) -> ModuleType:
    """The module that defines the object, or is the module, at a dotted path below jumok."""
    parts = name.split(".")
    for length in range(len(parts), -1, -1):  # a module has precedence over a function of its name
        try:
            found: Any = import_module(".".join(["jumok", *parts[:length]]))
            break
        except ModuleNotFoundError:
            continue
    value = found
    for part in parts[length:]:
        value = getattr(value, part)
    return import_module(getattr(value, "__module__", found.__name__))


def recorded(model: nn.Module, call: Callable[[], object]) -> torch.Tensor:
    """The attention weights of the single attention that runs in a call."""
    with record(model) as weights:
        call()
    [found] = weights.values()
    return found[0]


def evaluate(expression: str, names: dict[str, Any]) -> object:
    """The value of an expression, or its error as text."""
    try:
        with torch.no_grad():
            return eval(expression, names)  # from our own file
    except AttributeError as error:
        return f"AttributeError: {error}"


def rows(lists: dict[str, Any]) -> Iterator[Row]:
    """Every section with its outputs. Raises ValueError if outputs differ without a slip."""
    for note, entry in lists.items():
        torch.manual_seed(0)
        names: dict[str, Any] = {"torch": torch, "nn": nn, "F": F, "np": np, "recorded": recorded}
        with torch.no_grad():
            exec(entry["setup"], names)
        for section in entry["sections"]:
            outputs = [evaluate(section.get(side, "None"), names) for side in ("theirs", "ours")]
            row = Row(note, section, *outputs)
            if "theirs" in section and not row.agree and "slip" not in section:
                raise ValueError(f"{note} {section['at']}: {row.theirs} is not {row.ours}")
            yield row


def show(value: object) -> str:
    """A short text of an output; of a large tensor, its shape."""
    if isinstance(value, torch.Size):
        return str(tuple(value))
    if isinstance(value, torch.Tensor):
        if value.numel() > MAX_SHOWN:
            return str(tuple(value.shape))
        digits = value if value.dtype in (torch.bool, torch.int64) else value.round(decimals=2)
        return str(digits.tolist())
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, list):
        return "[" + ", ".join(map(show, value)) + "]"
    return str(value)


def cell(text: str) -> str:
    """Code in a cell of a table."""
    return "`" + text.replace("|", "\\|") + "`"


def name_link(name: str) -> str:
    """A link to the file that defines an object of jumok."""
    module = defining_module(name)
    assert module.__file__ is not None
    path = Path(module.__file__).resolve().relative_to(ROOT)
    return f"[{name}](../{path.as_posix()})"


def lesson_link(number: int) -> str:
    """A link to the Korean prose of a lesson; the number alone while it is not written."""
    if number not in [lesson.number for lesson in lessons()]:
        return str(number)
    return f"[{number}]({LESSONS}/{find_lesson(number).path.stem}.ko.md)"


def table_row(row: Row) -> str:
    """A line of the table of a note."""
    section = row.section
    theirs, ours = (cell(section[s]) if s in section else "" for s in ("theirs", "ours"))
    if "ours" not in section:
        output = ""
    elif "theirs" not in section or row.agree:
        output = cell(show(row.ours))
    else:
        output = f"노트 {cell(show(row.theirs))}<br>jumok {cell(show(row.ours))}"
    remarks = [f"**실수**: {section['slip']}"] if "slip" in section else []
    remarks += [section["remark"]] if "remark" in section else []
    where = ", ".join(map(name_link, section["names"]))
    columns = (section_title(section), lesson_link(section["lesson"]), where, theirs, ours, output)
    return f"| {' | '.join((*columns, '<br>'.join(remarks)))} |"


def note_notebook(note: str, entry: dict[str, Any], rows: Iterable[Row]) -> bytes:
    """The notebook of a note: the setup, then for each section its cell, ours and the assert."""
    cells = [text_cell(NOTEBOOK_INTRO.format(note=note, title=entry["title"]))]
    cells += [code_cell(INSTALL, "install"), code_cell(PRELUDE + entry["setup"].strip(), "setup")]
    for number, row in enumerate(rows):
        cells.append(text_cell(section_text(row, number)))
        if "theirs" in row.section:
            cells.append(code_cell(their_cell(row), f"note-{number}"))
        if "ours" in row.section:
            cells.append(code_cell(our_cell(row), f"jumok-{number}"))
    return notebook_bytes(with_kernel(cells))


def section_text(row: Row, number: int) -> str:
    """The heading of a section, its lesson, and what is to be said about it."""
    section = row.section
    parts = [f"## {number + 1}. {section_title(section)}", f"{section['lesson']}강"]
    parts += [f"**실수**: {section['slip']}"] if "slip" in section else []
    parts += [section["remark"].replace("](../", "](../../")] if "remark" in section else []
    return "\n\n".join(parts)


def their_cell(row: Row) -> str:
    """The note's cell; one that fails keeps its error."""
    cell = row.section["theirs"]
    if isinstance(row.theirs, str) and row.theirs.startswith("AttributeError"):
        return "# 노트\n" + FAILING.format(cell=cell)
    return f"# 노트\ntheirs = {cell}\n{shown_last('theirs', row.theirs)}"


def our_cell(row: Row) -> str:
    """The line of jumok, and whether both agree."""
    lines = ["# jumok", f"ours = {row.section['ours']}"]
    if "theirs" in row.section:
        lines.append(f"assert {'' if row.agree else 'not '}equal(theirs, ours)")
    return "\n".join([*lines, shown_last("ours", row.ours)])


def shown_last(name: str, value: object) -> str:
    """The last line of a cell: the value, or the shape of a large tensor."""
    large = isinstance(value, torch.Tensor) and value.numel() > MAX_SHOWN
    return f"tuple({name}.shape)" if large else name


def section_title(section: dict[str, Any]) -> str:
    """The heading of a section without its marks."""
    title: str = section["at"]
    return title.lstrip("#-* ").rstrip("* ")


def render(lists: dict[str, Any]) -> dict[Path, bytes]:
    """The files: the page and the notebooks."""
    parts, found = [INTRO], list(rows(lists))
    files = {}
    for note, entry in lists.items():
        of_note = [row for row in found if row.note == note]
        lines = [table_row(row) for row in of_note]
        file = NOTEBOOKS / f"note-{note}.ipynb"
        files[file] = note_notebook(note, entry, of_note)
        parts.append(
            f"## Note {note}\n\n{entry['title']}. "  # the anchor is #note-000
            f"셀을 실행해 볼 수 있는 노트북: [{file.name}](notebooks/{file.name})\n\n"
            "| 절 | 강 | 코드 | 노트의 셀 | jumok | 출력 | 비고 |\n|---|---|---|---|---|---|---|\n"
            + "\n".join(lines)
            + "\n"
        )
    notes: dict[str, set[str]] = defaultdict(set)
    numbers: dict[str, set[int]] = defaultdict(set)
    for row in found:
        for name in row.section["names"]:
            notes[name].add(f"[{row.note}](#note-{row.note})")
            numbers[name].add(row.section["lesson"])
    lines = [
        f"| {name_link(name)} | {', '.join(map(lesson_link, sorted(numbers[name])))} "
        f"| {', '.join(sorted(notes[name]))} |"
        for name in sorted(notes)
    ]
    parts.append(
        "## jumok에서 노트로\n\n| 코드 | 강 | 노트 |\n|---|---|---|\n" + "\n".join(lines) + "\n"
    )
    return {PAGE: "\n".join(parts).encode(), **files}


def main() -> int:
    """Write the files, or compare them."""
    files = render(tomllib.loads(LISTS.read_text(encoding="utf-8")))
    if "--check" not in sys.argv:
        NOTEBOOKS.mkdir(exist_ok=True)
        for path, content in files.items():
            path.write_bytes(content)
        return 0
    old = [path.name for path, new in files.items() if not is_same(path, new)]
    if old:
        print(f"{', '.join(old)} must be written again: python scripts/notes.py")
    return 1 if old else 0


def is_same(path: Path, content: bytes) -> bool:
    """Whether a file has this content."""
    return path.is_file() and path.read_bytes() == content


if __name__ == "__main__":
    sys.exit(main())
