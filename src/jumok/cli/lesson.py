"""jumok lesson: a lesson of the course in the terminal, or as a notebook."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jumok.terminal import make_console, print_line

if TYPE_CHECKING:
    from rich.console import Console

    from jumok.course.lesson import Language, Lesson

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_WORDS = {
    "ko": {"output": "출력", "guess": "답을 적고 실행해 보세요", "answer": "답"},
    "en": {"output": "output", "guess": "fill in the guess and run it", "answer": "answer"},
}


@app.command()
def lesson(
    number: Annotated[
        int | None, typer.Argument(metavar="[N]", help="The number; without it, the list.")
    ] = None,
    lang: Annotated[
        str | None, typer.Option(metavar="ko|en", help="Language. [default: of the locale]")
    ] = None,
    answers: Annotated[
        bool, typer.Option("--answers", help="Show the answers of guesses.")
    ] = False,
    export: Annotated[
        Path | None, typer.Option("--notebook", metavar="FILE", help="Write an .ipynb file.")
    ] = None,
) -> None:
    """Show a lesson of the course: prose, code and what the code prints."""
    from jumok.course.lesson import find_lesson, lessons
    from jumok.course.notebook import write_notebook

    language = _language(lang)
    if number is None:
        for each in lessons():
            print_line(f"{each.number:>3}  {each.title(language)}")
        return
    chosen = find_lesson(number)
    if export is not None:
        print_line(str(write_notebook(chosen, language, export)))
        return
    _show(chosen, language, answers, make_console())


def _language(given: str | None) -> "Language":
    """The language of the option, else of the locale: ko or en."""
    from jumok.course.lesson import LANGUAGES
    from jumok.errors import InputError

    if given is None:
        names = ("JUMOK_LANG", "LC_ALL", "LC_MESSAGES", "LANG")
        locale = next((os.environ[name] for name in names if os.environ.get(name)), "")
        return "ko" if locale.startswith("ko") else "en"
    if given not in LANGUAGES:
        raise InputError(f"--lang must be one of {', '.join(LANGUAGES)}, got {given!r}")
    return given


def _show(lesson: "Lesson", language: "Language", answers: bool, console: "Console") -> None:
    """Print the parts of a lesson."""
    from rich.markdown import Markdown
    from rich.panel import Panel
    from rich.syntax import Syntax
    from rich.text import Text

    from jumok.course.lesson import Cell, TraceView
    from jumok.course.plain import PlainMarkdown

    plain, words = PlainMarkdown(language), _WORDS[language]
    for part in lesson.parts(language):
        if isinstance(part, str):
            console.print(Markdown(plain.convert(part)), soft_wrap=False)
        elif isinstance(part, TraceView):
            command = f'jumok view note --lesson --state "{part.state}"'
            console.print(Panel(Text(command), title="jumok view", title_align="left"))
        elif isinstance(part, Cell):
            console.print(Syntax(part.shown, "python", background_color="default", padding=(0, 2)))
            printed = lesson.outputs[part.name].rstrip("\n")
            if part.answer is not None:
                note = f"{words['answer']}: {part.answer}" if answers else words["guess"]
                console.print(Text(f"  → {note}", style="italic"))
            elif printed:
                console.print(Panel(Text(printed), title=words["output"], title_align="left"))
        console.print()
