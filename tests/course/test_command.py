"""jumok lesson: the list, a lesson in each language, and the language of the locale."""

import re
from pathlib import Path

import pytest

from jumok.course import find_lesson
from tests.cli.commands import call

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def no_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JUMOK_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)


def test_the_list(capsys: Capture) -> None:
    assert "3  어텐션 한 줄" in call(capsys, "lesson", "--lang", "ko").out


def test_a_lesson_hides_the_answers_until_asked(capsys: Capture) -> None:
    shown = call(capsys, "lesson", "3", "--lang", "ko").out
    assert "guess = ..." in shown
    assert "답: 2.0" not in shown
    assert find_lesson(3).outputs["softmax"].splitlines()[0] in shown
    assert "답: 2.0" in call(capsys, "lesson", "3", "--lang", "ko", "--answers").out


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
