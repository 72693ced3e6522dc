"""jumok predict: one answer a text, in order."""

import json
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)

CHUNK = 256  # lines answered at a time when stdin is a file; from a pipe or a person each at once


@app.command(context_settings={"ignore_unknown_options": True})  # -_- is a text
def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT ...]", help="None: the lines of stdin.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines on stdout.")] = False,
) -> None:
    """Classify or rewrite texts, as the run was trained to."""
    from jumok.tasks.loading import load

    loaded = load(run)
    for part in [texts] if texts else _chunks():
        for answer in loaded.answer(part):
            line = json.dumps(asdict(answer), ensure_ascii=False) if as_json else answer.shown
            sys.stdout.write(line + "\n")
        sys.stdout.flush()


def _chunks() -> Iterator[list[str]]:
    """The lines of stdin, several at a time where they are all there already."""
    from jumok.errors import JumokError

    size = CHUNK if stat.S_ISREG(os.fstat(sys.stdin.fileno()).st_mode) else 1
    chunk: list[str] = []
    try:
        for line in _lines():
            chunk.append(line)
            if len(chunk) == size:
                yield chunk
                chunk = []
    except JumokError:  # what came before a bad line is answered
        yield chunk
        raise
    yield chunk


def _lines() -> Iterator[str]:
    from jumok.errors import InputError
    from jumok.text.normalization import checked

    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            yield checked(text.removesuffix("\n").removesuffix("\r"))
        except UnicodeDecodeError as error:
            raise InputError(
                f"stdin:{number}: byte {error.start} is not UTF-8 "
                f"(0x{line[error.start]:02x}); convert the input to UTF-8"
            ) from error
        except InputError as error:
            raise InputError(f"stdin:{number}: {error}") from error
