"""A lesson: code in cells, prose in two languages, and the recorded output of each cell.

    lessons/03_attention.py         the code; a line `# %% name` begins a cell
    lessons/03_attention.ko.md      the prose; a line `{cell} name` alone is replaced by the cell,
    lessons/03_attention.en.md      `{trace} STATE` by the page of the model "note", `{file} NAME`
                                    by the lines of transformer.py that define NAME
    lessons/03_attention.out.json   what the cells print, by their names

A cell `guess-...` has one line `guess = VALUE  # guess`: readers see `guess = ...` and fill it in.
A cell `answer-...` solves the exercises of the lesson; readers see an empty cell. A cell
`picture-...` leaves a `figure`, which docs/images/lessons has as a file in both languages.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Final, Literal, TypeVar, get_args

from jumok.errors import InputError

Language = Literal["ko", "en"]
LANGUAGES: Final[tuple[Language, ...]] = get_args(Language)
FOLDER = Path(__file__).parent / "lessons"
LEARNERS_FILE = Path(__file__).parent / "transformer.py"  # what the lessons build
EMPTY = "# 여기에 풀어 보세요 / your solution"

_DEFINITIONS = ast.FunctionDef, ast.ClassDef
_CELL = re.compile(r"^# %% *(.*)$", re.MULTILINE)
_GUESS = re.compile(r"^guess = (.*?)  # guess$", re.MULTILINE)
_INSERTED = re.compile(r"^\{(cell|trace|file)\} *(.*?) *$")


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
    def is_solution(self) -> bool:
        """Whether the cell solves exercises."""
        return self.name.startswith("answer-")

    @property
    def is_picture(self) -> bool:
        """Whether the cell draws a `figure`."""
        return self.name.startswith("picture-")

    @property
    def shown(self) -> str:
        """The source with `...` for the guessed value; empty but for a comment for a solution."""
        return EMPTY if self.is_solution else _GUESS.sub("guess = ...", self.source)


@dataclass(frozen=True)
class TraceView:
    """The page of the model "note" in a state as of `jumok view --state`."""

    state: str


Named = TypeVar("Named")
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
            kind, name = found.groups()
            if kind == "file":
                prose += ["```python", *self._piece(name).splitlines(), "```"]
                continue
            if "".join(prose).strip():
                yield "\n".join(prose).strip("\n")
            prose = []
            yield self._cell(name) if kind == "cell" else TraceView(name)
        if "".join(prose).strip():
            yield "\n".join(prose).strip("\n")

    def _cell(self, name: str) -> Cell:
        return self._named(name, self.cells, self.path)

    def _piece(self, name: str) -> str:
        return self._named(name, file_pieces(), LEARNERS_FILE)

    def _named(self, name: str, known: Mapping[str, Named], path: Path) -> Named:
        if name not in known:
            raise InputError(
                "course.no_such_cell",
                "{path} must have the cell {name!r}, got {cells}; correct the name in the prose",
                path=path.name,
                name=name,
                cells=", ".join(known),
            )
        return known[name]


@cache
def file_pieces() -> Mapping[str, str]:
    """The lines of transformer.py by the function or class that they define; first its imports.

    >>> file_pieces()["imports"].splitlines()[0]
    'import math'
    """
    text = LEARNERS_FILE.read_text(encoding="utf-8")
    _, *imports = (each for each in ast.parse(text).body if not isinstance(each, _DEFINITIONS))
    definitions = [each for each in ast.parse(text).body if isinstance(each, _DEFINITIONS)]
    lines = text.splitlines()
    pieces = {"imports": "\n".join(lines[imports[0].lineno - 1 : imports[-1].end_lineno])}
    for each in definitions:
        start = min(part.lineno for part in (each, *each.decorator_list))
        pieces[each.name] = "\n".join(lines[start - 1 : each.end_lineno])
    return pieces


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
