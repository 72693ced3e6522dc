"""Writes docs/notes.md: each section of the five notes, our line for it, and both outputs.

    PYTHONPATH=src .venv/bin/python scripts/notes.py [--check]

scripts/notes.toml lists the sections. The expressions of a note and of jumok are evaluated with
the same tensors; they must be equal, or a slip must explain the difference. `--check` compares the
page with the file instead of writing it.
"""

import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator
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
from jumok.nn import record

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "notes.md"
LISTS = ROOT / "scripts" / "notes.toml"
LESSONS = "../src/jumok/course/lessons"
TESTS = "../tests/from_scratch"
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


def test_link(test: str) -> str:
    """A link to the file of a test, `file:function` in notes.toml."""
    file, function = test.split(":")
    return f"[{function}]({TESTS}/test_{file}.py)"


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
    remarks += [test_link(test) for test in section.get("tests", [])]
    where = ", ".join(map(name_link, section["names"]))
    title = section["at"].lstrip("#-* ").rstrip("* ")
    columns = (title, lesson_link(section["lesson"]), where, theirs, ours, output)
    return f"| {' | '.join((*columns, '<br>'.join(remarks)))} |"


def render(lists: dict[str, Any]) -> str:
    """The page."""
    parts, found = [INTRO], list(rows(lists))
    for note, entry in lists.items():
        lines = [table_row(row) for row in found if row.note == note]
        parts.append(
            f"## Note {note}\n\n{entry['title']}\n\n"  # the anchor is #note-000
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
    return "\n".join(parts)


def main() -> int:
    """Write the page, or compare it."""
    page = render(tomllib.loads(LISTS.read_text(encoding="utf-8")))
    if "--check" not in sys.argv:
        PAGE.write_text(page, encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") == page:
        return 0
    print(f"{PAGE.name} must be written again: python scripts/notes.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
