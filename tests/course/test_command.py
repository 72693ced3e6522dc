"""jumok lesson: the list, a lesson in each language, and the language of the locale."""

import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from jumok.course import LANGUAGES, Cell, find_lesson, lessons
from jumok.course.lesson import TraceView
from jumok.course.plain import readable_math
from jumok.terminal import text_width
from tests.cli.commands import call

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def no_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JUMOK_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)


def test_the_list(capsys: Capture) -> None:
    assert "3  어텐션 한 줄" in call(capsys, "lesson", "--lang", "ko").out


def test_a_lesson_hides_the_answers_by_default(capsys: Capture) -> None:
    shown = call(capsys, "lesson", "3", "--lang", "ko").out
    assert "guess = ..." in shown
    assert "답: 2.0" not in shown
    assert find_lesson(3).outputs["softmax"].splitlines()[0] in shown
    assert "답: jumok lesson 3 --answers" in shown
    solution = find_lesson(3).cells["answer-exercises"].source.splitlines()[0]
    assert solution not in shown
    with_answers = call(capsys, "lesson", "3", "--lang", "ko", "--answers").out
    assert "답: 2.0" in with_answers
    assert solution in with_answers
    assert find_lesson(3).outputs["answer-exercises"].splitlines()[0] in with_answers


def on_terminal_of_80_columns(
    number: int, language: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> str:
    """A lesson as a terminal shows it, without colours."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = call(capsys, "lesson", str(number), "--lang", language).out
    return re.sub(r"\x1b\[[0-9;]*m", "", shown)


@pytest.mark.parametrize("number", [each.number for each in lessons()])
def test_a_pipe_gets_whole_lines(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Prose, code and outputs as they are written, as Markdown that has each cell."""
    monkeypatch.setenv("COLUMNS", "40")
    lesson = find_lesson(number)
    shown = call(capsys, "lesson", str(number), "--lang", "ko").out
    fences = [token for token in MarkdownIt().parse(shown) if token.type == "fence"]
    code = [token.content for token in fences if token.info == "python"]
    cells = [part for part in lesson.parts("ko") if isinstance(part, Cell)]
    assert all(part.shown.strip("\n") + "\n" in code for part in cells)
    printed = [token.content for token in fences if token.info == "text"]
    assert all(text.rstrip("\n") in "".join(lesson.outputs.values()) for text in printed)
    for part in lesson.parts("ko"):
        if isinstance(part, TraceView):
            assert f'--state "{part.state}&lang=ko"\n' in shown


@pytest.mark.parametrize("number", [each.number for each in lessons()])
def test_nothing_is_cut_on_a_terminal_of_80_columns(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    shown = on_terminal_of_80_columns(number, "ko", monkeypatch, capsys)
    lines = [line for line in shown.splitlines() if not line.startswith("jumok view note --lesson")]
    assert max(map(text_width, lines)) <= 80  # a command is one line, to be copied
    for part in find_lesson(number).parts("ko"):
        if isinstance(part, TraceView):
            assert f'--state "{part.state}&lang=ko"\n' in shown
    letters = re.sub(r"[\s│#]", "", shown)  # a comment that goes on has a second #
    for part in find_lesson(number).parts("ko"):
        if isinstance(part, Cell):
            assert re.sub(r"[\s│#]", "", part.shown) in letters, part.name


@pytest.mark.parametrize("number", [each.number for each in lessons()])
def test_mathematics_is_text_on_a_terminal(number: int) -> None:
    for language in LANGUAGES:
        for part in find_lesson(number).parts(language):
            if isinstance(part, str):
                text = readable_math(part)
                assert not re.search(r"[$]|\\[a-z{]|\^\{", text), text


def test_wrapped_code_is_indented(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    shown = on_terminal_of_80_columns(4, "en", monkeypatch, capsys)
    lines = [line.rstrip() for line in shown.splitlines()]
    at = lines.index(
        "  four_heads = 4 * 3 * D * (D // 4) + D * D  # q, k, v of each head, then the"
    )
    assert lines[at + 1] == "          # output"


def test_the_page_of_a_lesson(capsys: Capture, tmp_path: Path) -> None:
    shown = call(capsys, "lesson", "3", "--lang", "en").out
    found = re.search(r"jumok (view note --lesson --state) \"([^\"]+)\"", shown)
    assert found is not None
    page = tmp_path / "page.html"
    assert call(capsys, *found[1].split(), found[2], "--export", page).code == 0
    assert "v=matrix" in page.read_text(encoding="utf-8")


def test_the_language_of_the_locale(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Attention in one line" in call(capsys, "lesson", "3").out
    monkeypatch.setenv("LANG", "ko_KR.UTF-8")
    assert "어텐션 한 줄" in call(capsys, "lesson", "3").out


def test_an_unknown_language(capsys: Capture) -> None:
    assert "--lang must be one of ko, en, got 'fr'" in call(capsys, "lesson", "--lang", "fr").err
