"""The lessons: their form, what their cells print, and that each guess is checked."""

import re
from pathlib import Path

import pytest

from jumok.config_io import suggest
from jumok.course import LANGUAGES, Cell, Language, Lesson, find_lesson, lessons
from jumok.course.lesson import EMPTY, TraceView
from jumok.course.notebook import notebook
from jumok.course.plain import NOTE, ROLE, PlainMarkdown
from jumok.errors import InputError
from jumok.viewer.view_state import ViewState, normalize_state
from tests.course.cells import check_guess, run_lesson
from tests.course.public_objects import find_object
from tests.course.record import PICTURES
from tests.errors import raises

N_LESSONS = 13  # from 0, with a slip of the notes; then what is left out, and the learner's file
MAX_EOJEOL, MAX_LINES, MAX_WIDTH = 1_500, 14, 88
NOTES = ("000", "001", "002", "003", "004")
LAST_SECTIONS = {
    "ko": ("## jumok에서는", "## 논문에서는"),
    "en": ("## In jumok", "## In the paper"),
}

every_lesson = pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.path.stem)
every_language = pytest.mark.parametrize("language", LANGUAGES)


def test_numbers_are_unique_and_an_unknown_one_is_an_error() -> None:
    numbers = [lesson.number for lesson in lessons()]
    assert numbers == sorted(set(numbers))
    with raises(InputError, "course.unknown_lesson"):
        find_lesson(77)


@every_lesson
def test_cells(lesson: Lesson) -> None:
    names = list(lesson.cells)
    extra = [cell for cell in lesson.cells.values() if cell.is_solution or cell.is_picture]
    assert 3 <= len(names) - len(extra) <= 7
    assert any(name.startswith("guess-") for name in names)
    assert any(name.startswith("slip-") for name in names) == (lesson.number < N_LESSONS)
    assert "assert" in lesson.path.read_text(encoding="utf-8")
    for cell in lesson.cells.values():
        lines = [line for line in cell.source.splitlines() if line]
        assert len(lines) <= MAX_LINES, cell.name
        assert max(map(len, lines)) <= MAX_WIDTH, cell.name
        assert (cell.answer is not None) == cell.name.startswith("guess-"), cell.name


@every_lesson
@every_language
def test_prose(lesson: Lesson, language: Language) -> None:
    parts = list(lesson.parts(language))
    assert [part.name for part in parts if isinstance(part, Cell)] == list(lesson.cells)
    [view] = [part for part in parts if isinstance(part, TraceView)]
    assert ViewState.parse(normalize_state(view.state)).view
    text = lesson.markdown(language)
    assert text.startswith("# ")
    sections = re.findall(r"^## .*$", text, re.MULTILINE)
    assert tuple(sections[-2:]) == LAST_SECTIONS[language]
    assert len(text.split()) <= MAX_EOJEOL
    assert text.count(":::{") == len(re.findall(r"^:::$", text, re.MULTILINE))


@every_lesson
@every_language
def test_roles_have_targets(lesson: Lesson, language: Language) -> None:
    text = lesson.markdown(language)
    assert not set(re.findall(r"\{(\w+)\}`", text)) - {"jumok", "note", "lesson"}
    for kind, target in ROLE.findall(text):
        if kind == "jumok":
            find_object(target)
        elif kind == "note":
            assert target in NOTES, suggest(target, NOTES)
        else:
            find_lesson(int(target))


@every_lesson
def test_the_same_headings_and_links_in_both_languages(lesson: Lesson) -> None:
    korean, english = (lesson.markdown(language) for language in LANGUAGES)
    assert [found for found in ROLE.findall(korean) if found[0] == "jumok"] == [
        found for found in ROLE.findall(english) if found[0] == "jumok"
    ]
    assert korean.count("\n## ") == english.count("\n## ")
    inserted = re.compile(r"^\{(?:cell|trace|file)\} .*$", re.MULTILINE)
    assert inserted.findall(korean) == inserted.findall(english)
    assert list(lesson.outputs) == list(lesson.cells)


@every_lesson
@every_language
def test_every_lesson_has_exercises_with_answers(lesson: Lesson, language: Language) -> None:
    [answer] = [cell for cell in lesson.cells.values() if cell.is_solution]
    before = lesson.markdown(language).partition(f"{{cell}} {answer.name}")[0]
    assert len(re.findall(r"^1\. .*\?$", before, re.MULTILINE)) >= 1, "a numbered question"
    assert answer.shown == EMPTY
    assert answer.source not in str(notebook(lesson, language))
    assert len(re.findall(r"^\d\. |^alpha", lesson.outputs[answer.name], re.MULTILINE)) >= 2


@every_lesson
def test_pictures_are_recorded_in_both_languages(lesson: Lesson) -> None:
    expected = {
        f"{lesson.path.stem}.{cell.name.removeprefix('picture-')}.{language}.png"
        for cell in lesson.cells.values()
        if cell.is_picture
        for language in LANGUAGES
    }
    assert expected == {path.name for path in PICTURES.glob(f"{lesson.path.stem}.*")}


@pytest.mark.parametrize("number", [2, 3, 4, 5, 7, 8, 10, 15, 16])
def test_a_picture_cell_ends_with_its_figure(number: int) -> None:
    """So a notebook displays it."""
    [cell] = [cell for cell in find_lesson(number).cells.values() if cell.is_picture]
    assert cell.source.endswith("\nfigure")


def test_one_word_for_layer() -> None:
    for lesson in lessons():
        assert not re.findall(r"(?<!출력)층", lesson.markdown("ko")), "레이어"


@pytest.mark.slow
@every_lesson
def test_outputs_are_those_recorded_and_guesses_fail_with_a_hint(lesson: Lesson) -> None:
    """In one run: a guess is checked before its cell runs with the right one."""
    hints: dict[str, str] = {}
    assert run_lesson(lesson, hints=hints) == lesson.outputs
    guesses = [name for name, cell in lesson.cells.items() if cell.answer is not None]
    assert list(hints) == guesses
    for hint in hints.values():
        assert re.match(r"힌트: .+ / Hint: .+", hint, re.DOTALL), hint


def test_a_cell_that_accepts_anything_is_an_error() -> None:
    cell = Cell("guess-nothing", "guess = 1  # guess")
    with pytest.raises(ValueError, match="guess-nothing must fail until"):
        check_guess(cell, {})


def test_a_cell_that_the_code_lacks_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "05_masks.py").write_text('"""Masks."""\n\n# %% one\nprint(1)\n')
    (tmp_path / "05_masks.ko.md").write_text("# 마스크\n\n{cell} two\n", encoding="utf-8")
    with raises(InputError, "course.no_such_cell"):
        list(Lesson(tmp_path / "05_masks.py").parts("ko"))


def test_plain_markdown_of_a_box_around_a_cell() -> None:
    plain = PlainMarkdown("ko")
    assert plain.convert(":::{admonition} 노트의 실수\n{note}`001`에서") == (
        f"> **노트의 실수**\n>\n> {NOTE['ko']} 001에서"
    )
    assert plain.convert("그래서\n:::\n끝") == "> 그래서\n\n끝"
