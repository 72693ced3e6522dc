"""A lesson: code in cells, prose in two languages, and the recorded output of each cell.

    lessons/03_attention.py         the code; a line `# %% name` begins a cell
    lessons/03_attention.ko.md      the prose; a line `{cell} name` alone is replaced by the cell,
    lessons/03_attention.en.md      `{trace} STATE` by the page of the model "note"
    lessons/03_attention.out.json   what the cells print, by their names

A cell `guess-...` has one line `guess = VALUE  # guess`: readers see `guess = ...` and fill it in.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Literal, get_args

from jumok.errors import InputError

Language = Literal["ko", "en"]
LANGUAGES: Final[tuple[Language, ...]] = get_args(Language)
FOLDER = Path(__file__).parent / "lessons"

_CELL = re.compile(r"^# %% *(.*)$", re.MULTILINE)
_GUESS = re.compile(r"^guess = (.*?)  # guess$", re.MULTILINE)
_INSERTED = re.compile(r"^\{(cell|trace)\} *(.*?) *$")


@dataclass(frozen=True)
class Cell:
    r"""A piece of code with a name.

    >>> cell = Cell("guess-sum", "guess = 3  # guess\nassert guess == 1 + 2")
    >>> print(cell.shown)
    guess = ...
    assert guess == 1 + 2
    >>> cell.answer
    '3'
    """

    name: str
    source: str

    @property
    def answer(self) -> str | None:
        """The value that readers guess; None if the cell asks for none."""
        found = _GUESS.search(self.source)
        return found[1] if found else None

    @property
    def shown(self) -> str:
        """The source with `...` for the guessed value."""
        return _GUESS.sub("guess = ...", self.source)


@dataclass(frozen=True)
class TraceView:
    """The page of the model "note" in a state as of `jumok view --state`."""

    state: str


Part = str | Cell | TraceView  # str: Markdown


@dataclass(frozen=True)
class Lesson:
    """One lesson; `path` is the file of its code."""

    path: Path

    @property
    def number(self) -> int:
        """The number of the lesson, from 0."""
        return int(self.path.stem.partition("_")[0])

    @cached_property
    def cells(self) -> dict[str, Cell]:
        """The cells by name, in the order of the file."""
        _, *pieces = _CELL.split(self.path.read_text(encoding="utf-8"))
        named = zip(pieces[::2], pieces[1::2], strict=True)
        return {name.strip(): Cell(name.strip(), source.strip("\n")) for name, source in named}

    @cached_property
    def outputs(self) -> Mapping[str, str]:
        """What the cells print, as recorded by `python -m tests.course.record`."""
        text = self.path.with_suffix(".out.json").read_text(encoding="utf-8")
        outputs: dict[str, str] = json.loads(text)
        return outputs

    def markdown(self, language: Language) -> str:
        """The prose of a language, with its lines `{cell} name` and `{trace} STATE`."""
        return self.path.with_suffix(f".{language}.md").read_text(encoding="utf-8")

    def title(self, language: Language) -> str:
        """The first line, without #."""
        return self.markdown(language).partition("\n")[0].removeprefix("# ")

    def parts(self, language: Language) -> Iterator[Part]:
        """Prose, cells and pages in the order in which they are read.

        Raises InputError for a cell that the code does not have.
        """
        prose: list[str] = []
        for line in self.markdown(language).splitlines():
            if not (found := _INSERTED.match(line)):
                prose.append(line)
                continue
            if "".join(prose).strip():
                yield "\n".join(prose).strip("\n")
            prose = []
            kind, name = found.groups()
            yield self._cell(name) if kind == "cell" else TraceView(name)
        if "".join(prose).strip():
            yield "\n".join(prose).strip("\n")

    def _cell(self, name: str) -> Cell:
        if name not in self.cells:
            raise InputError(
                "course.no_such_cell",
                "{path} must have the cell {name!r}, got {cells}; correct the name in the prose",
                path=self.path.name,
                name=name,
                cells=", ".join(self.cells),
            )
        return self.cells[name]


def lessons(folder: Path = FOLDER) -> list[Lesson]:
    """Every lesson, by number."""
    return [Lesson(path) for path in sorted(folder.glob("[0-9][0-9]_*.py"))]


def find_lesson(number: int) -> Lesson:
    """The lesson with this number. Raises InputError with the numbers that exist.

    >>> find_lesson(3).number
    3
    """
    known = {lesson.number: lesson for lesson in lessons()}
    if number not in known:
        raise InputError(
            "course.unknown_lesson",
            "the number of a lesson must be one of {map}, got {number}",
            map=", ".join(map(str, known)),
            number=number,
        )
    return known[number]
