"""Runs the command of a typer app with its help and usage errors in the user's language."""

import inspect
import logging
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import typer

from jumok.errors import Message, UsageError
from jumok.language import language, localize, translate
from jumok.terminal import pad, wrap

_EXTRA = re.compile(r"(.*?)(?:  \[([^\[\]]*)\])?", re.DOTALL)  # a help text, [default: ...]


def run(app: typer.Typer, arguments: Sequence[str], name: str) -> None:
    """Run a command of the command line, which exits with its code."""
    command: Any = typer.main.get_command(app)  # typer may bring its own click
    for step in ("make_context", "invoke"):
        setattr(command, step, _with_own_errors(getattr(command, step), name))
    if language() == "ko":
        _translate(command)
        if logging.lastResort is not None:
            logging.lastResort.setFormatter(_KoreanWarnings())
    command.main(list(arguments), prog_name=name)


class _KoreanWarnings(logging.Formatter):
    """Translates the warnings that Python prints to stderr where no logging is configured."""

    def format(self, record: logging.LogRecord) -> str:
        return localize(record.msg if isinstance(record.msg, Message) else super().format(record))


def _translate(command: Any) -> None:
    """Replace the texts of a command, of its parameters and of its subcommands."""
    command.help = translate(inspect.cleandoc(command.help or ""), section="help")
    command.context_class = _korean_context(command.context_class)
    for parameter in command.params:
        if getattr(parameter, "help", None):
            parameter.help = translate(parameter.help, section="help")
    for subcommand in getattr(command, "commands", {}).values():
        _translate(subcommand)


def _korean_context(base: Any) -> Any:
    """A context class whose help has Korean headings, wrapped by the width of Hangul."""

    class Formatter(base.formatter_class):  # type: ignore[misc]  # of click or of typer's click
        def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
            super().write_usage(prog, args, f"{translate('Usage', section='help')}: ")

        def write_heading(self, heading: str) -> None:
            super().write_heading(translate(heading, section="help"))

        def write_text(self, text: str) -> None:
            indent = " " * self.current_indent
            for number, paragraph in enumerate(text.split("\n\n")):
                lines = wrap(" ".join(paragraph.split()), self.width - len(indent))
                self.write("\n" * (number > 0) + textwrap.indent("\n".join(lines), indent) + "\n")

        def write_dl(
            self, rows: Sequence[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
        ) -> None:
            width = min(max(len(first) for first, _ in rows), col_max) + col_spacing
            indent = " " * self.current_indent
            for first, second in rows:
                lines = wrap(_korean_help(second), self.width - width - len(indent))
                if len(first) + col_spacing > width:
                    self.write(f"{indent}{first}\n")
                    first = ""
                for line in lines:
                    self.write(f"{indent}{pad(first, width)}{line}\n")
                    first = ""

    return type("KoreanContext", (base,), {"formatter_class": Formatter})


def _korean_help(text: str) -> str:
    """A help text with the Korean of what typer adds to it: [default: 2; required]."""
    found = _EXTRA.fullmatch(text)
    if found is None or found[2] is None:
        return translate(text, section="help")
    extras = []
    for extra in found[2].split("; "):
        name, colon, value = extra.partition(": ")
        extras.append(f"{translate(name, section='help')}{colon}{value}")
    return f"{translate(found[1], section='help')} [{'; '.join(extras)}]".strip()


def _with_own_errors(step: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A step of click whose usage errors become messages of jumok, with the same exit code."""

    def run_step(*arguments: Any, **options: Any) -> Any:
        try:
            return step(*arguments, **options)
        except Exception as error:
            format_message = getattr(error, "format_message", None)
            is_help = type(error).__name__ == "NoArgsIsHelpError"
            if format_message is None or getattr(error, "exit_code", 0) != 2 or is_help:
                raise
            path = getattr(getattr(error, "ctx", None), "command_path", name)
            message = format_message().rstrip(".").replace(": Value error, ", ": ")  # of pydantic
            raise UsageError(
                "cli.see_help", "{message}; see {path} --help", message=message, path=path
            ) from error

    return run_step
