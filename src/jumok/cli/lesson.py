"""jumok lesson: a lesson of the course in the terminal, or as a notebook."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jumok.errors import UsageError
from jumok.language import language
from jumok.terminal import make_console, print_line, text_width

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.text import Text

    from jumok.course.lesson import Cell, Language, Lesson, TraceView

HANGING = " " * 8  # the further indentation of code that continues a line

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_WORDS = {
    "ko": {"output": "출력", "guess": "답을 적고 실행해 보세요", "answer": "답", "picture": "그림"},
    "en": {
        "output": "output",
        "guess": "fill in the guess and run it",
        "answer": "answer",
        "picture": "picture",
    },
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

    chosen_language = _language(lang)
    if number is None:
        for each in lessons():
            print_line(f"{each.number:>3}  {each.title(chosen_language)}")
        return
    chosen = find_lesson(number)
    if export is not None:
        print_line(str(write_notebook(chosen, chosen_language, export, answers=answers)))
        return
    console = make_console()
    if console.is_terminal:
        _show(chosen, chosen_language, answers, console)
    else:
        _print_markdown(chosen, chosen_language, answers)


def _language(given: str | None) -> "Language":
    """The language of the option, else of the locale: ko or en."""
    from jumok.course.lesson import LANGUAGES

    if given is None:
        return language()
    if given not in LANGUAGES:
        raise UsageError(
            "cli.unknown_language",
            "--lang must be one of {languages}, got {given!r}",
            languages=", ".join(LANGUAGES),
            given=given,
        )
    return given


def _show(lesson: "Lesson", language: "Language", answers: bool, console: "Console") -> None:
    """Print the parts of a lesson."""
    from rich.markdown import Markdown
    from rich.padding import Padding
    from rich.panel import Panel
    from rich.syntax import Syntax
    from rich.text import Text

    from jumok.course.lesson import Cell, TraceView
    from jumok.course.plain import PlainMarkdown, readable_math

    plain, words = PlainMarkdown(language), _WORDS[language]
    for part in lesson.parts(language):
        if isinstance(part, str):
            console.print(Markdown(readable_math(plain.convert(part))), soft_wrap=False)
        elif isinstance(part, TraceView):
            console.print(
                Text(_command(part, language), style="bold")
            )  # not in a box, which cuts it off
        elif isinstance(part, Cell):
            source = part.source if part.is_solution and answers else part.shown
            code = Syntax(source, "python", background_color="default").highlight(source)
            code.rstrip()
            lines = [
                piece
                for line in code.split("\n", allow_blank=True)
                for piece in _pieces(line, console.width - 4)
            ]
            console.print(Padding(Text("\n").join(lines), (0, 2)))
            printed = lesson.outputs[part.name].rstrip("\n")
            if note := _note(part, lesson, answers, words):
                console.print(Text(f"  → {note}", style="italic"))
            elif printed:
                panel = Panel(Text(printed), title=words["output"], title_align="left")
                console.print(panel, soft_wrap=False)  # long lines are folded
        console.print()


def _print_markdown(lesson: "Lesson", language: "Language", answers: bool) -> None:
    """Print a lesson as Markdown with whole lines: to a file or another program."""
    from jumok.course.lesson import Cell, TraceView
    from jumok.course.plain import PlainMarkdown, readable_math

    plain, words = PlainMarkdown(language), _WORDS[language]
    for part in lesson.parts(language):
        if isinstance(part, str):
            print_line(readable_math(plain.convert(part)))
        elif isinstance(part, TraceView):
            print_line(f"```sh\n{_command(part, language)}\n```")
        elif isinstance(part, Cell):
            source = part.source if part.is_solution and answers else part.shown
            print_line(f"```python\n{source.strip(chr(10))}\n```")
            printed = lesson.outputs[part.name].rstrip("\n")
            if note := _note(part, lesson, answers, words):
                print_line(f"\n→ {note}")
            elif printed:
                print_line(f"\n{words['output']}:\n\n```text\n{printed}\n```")
        print_line("")


def _command(part: "TraceView", language: "Language") -> str:
    """The command that shows a view of a trace."""
    return f'jumok view note --lesson --state "{part.state}&lang={language}"'


def _note(part: "Cell", lesson: "Lesson", answers: bool, words: dict[str, str]) -> str:
    """The line below a cell instead of what it prints; "" for none."""
    if part.answer is not None:
        return f"{words['answer']}: {part.answer}" if answers else words["guess"]
    if part.is_solution and not answers:
        return f"{words['answer']}: jumok lesson {lesson.number} --answers"
    if part.is_picture:
        return f"{words['picture']}: jumok lesson {lesson.number} --notebook FILE.ipynb"
    return ""


def _pieces(line: "Text", width: int) -> "Iterator[Text]":
    """A line of code in pieces that fit, from the second on indented further.

    A comment goes on as a comment.
    """
    from rich.text import Text

    indent = line.plain[: len(line.plain) - len(line.plain.lstrip())]
    while text_width(line.plain) > width:
        end = _last_break(line.plain, width)
        first, rest = line.divide([end])
        yield first
        mark = "# " if "# " in first.plain and '"' not in rest.plain else ""
        line = Text(indent + HANGING + mark) + (rest[1:] if rest.plain.startswith(" ") else rest)
    yield line


def _last_break(line: str, width: int) -> int:
    """Where a line is cut: at the last space that fits, else at a dot, else where it must be."""
    begin = len(line) - len(line.lstrip())
    fits = [end for end in range(begin + 1, len(line)) if text_width(line[:end]) <= width]
    for mark in " .":
        ends = [end for end in fits if line[end] == mark and line[end - 1] != "#"]
        if ends:
            return ends[-1]
    return fits[-1]
