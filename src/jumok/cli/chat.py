"""jumok chat: a conversation with an imported chat model in the terminal."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jumok.cli.options import (
    ChatTemplateOption,
    DecodingOverrides,
    apply_decoding,
    load_ensemble,
    read_template,
    run_argument,
)
from jumok.cli.stdin import open_stdin
from jumok.terminal import print_message

if TYPE_CHECKING:
    from jumok.tasks.pipeline.chat import Chat
    from jumok.text.chat import Message

app = typer.Typer(rich_markup_mode=None, add_completion=False)

PROMPT = "> "


@app.command()
def chat(
    model: Annotated[Path, run_argument("An imported chat model or its folder.", metavar="MODEL")],
    system: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The system message of the chat.")
    ] = None,
    template: ChatTemplateOption = None,
    decoding: DecodingOverrides = None,
) -> None:
    """Chat with a model; an empty line or the end of the input ends the chat.

    Ctrl-C ends an answer, whose text is kept; at the prompt it ends the chat.
    """
    from jumok.tasks.pipeline.chat import Chat
    from jumok.text.chat import Message

    pipeline = apply_decoding(load_ensemble(model, None), decoding or [], None, None)
    messages = [] if system is None else [Message("system", system)]
    _converse(Chat.of(pipeline, read_template(template)), messages)


def _converse(chat: "Chat", messages: "list[Message]") -> None:
    """Read and answer messages until the input ends."""
    from jumok.text.chat import Message

    while (text := _read()) is not None:
        parts: list[str] = []

        def show(part: str, parts: list[str] = parts) -> None:
            parts.append(part)
            sys.stdout.write(part)
            sys.stdout.flush()

        messages.append(Message("user", text))
        try:
            chat.answer(messages, show)
        except KeyboardInterrupt:
            sys.stdout.write("\n")
            sys.stdout.flush()
            print_message(
                "cli.answer_interrupted", "jumok: the answer was interrupted; its text is kept"
            )
        else:
            sys.stdout.write("\n")
            sys.stdout.flush()
        messages.append(Message("assistant", "".join(parts)))


def _read() -> str | None:
    """The next message; None at the end of the input, for an empty line, and for Ctrl-C."""
    try:
        if open_stdin().isatty():
            sys.stdout.write(PROMPT)
            sys.stdout.flush()
        line = sys.stdin.readline()
    except KeyboardInterrupt:
        sys.stdout.write("\n")
        return None
    return line.strip() or None
