"""jumok predict: one answer a text, in order."""

import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jumok.cli.options import Along, Words, load_with, overridden
from jumok.cli.precision import Precise, reading_in

if TYPE_CHECKING:
    from jumok.tasks.pipeline.outputs import Answer
    from jumok.tasks.pipeline.pipeline import Loaded

app = typer.Typer(rich_markup_mode=None, add_completion=False)

CHUNK = 256  # lines answered at a time when stdin is a file; from a pipe or a person each at once
CHUNK_LETTERS = 2**16  # and no more than this, so that long lines do not lie in memory by hundreds


@app.command(context_settings={"ignore_unknown_options": True})  # -_- is a text
def predict(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT ...]", help="None: the lines of stdin.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines on stdout.")] = False,
    along: Along = None,
    decoding: Words = None,
    precision: Precise = None,
    n_best: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="N answers a text: a beam of N or more, or N draws."),
    ] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Show each answer while it is written.")
    ] = False,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="With --json: each token's log-probability.")
    ] = False,
    alignment: Annotated[
        bool, typer.Option("--alignment", help="With --json: what each token looked at.")
    ] = False,
    draft: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="A smaller run that guesses ahead: the same, sooner."),
    ] = None,
) -> None:
    """Classify texts, rewrite or continue them, as the run was trained to."""
    _refuse_options(texts or [], [name for each in context.command.params for name in each.opts])
    words = decoding or []
    loaded = reading_in(load_with(run, along, words), precision)
    if n_best is not None:
        words = [*words, *_for_n_best(loaded, words, n_best)]
    if tokens or alignment:
        _refuse_telling(loaded, as_json)
    if stream:
        _refuse_unwritten(loaded, "--stream")
        _refuse_stream(loaded.with_decoding(words), as_json)
    loaded = overridden(loaded, words, along, precision)
    if draft is not None:
        loaded = loaded.drafted_by(load_with(draft, None))
    for part in [texts] if texts else _chunks():
        if stream:
            for text in part:
                _stream(loaded, text)
            continue
        for answer in _answers(loaded, part):
            line = _json(loaded, answer, tokens, alignment) if as_json else answer.shown
            sys.stdout.write(line + "\n")
            _tell_loop(answer)
        sys.stdout.flush()
    if loaded.draft is not None:
        print(f"draft: {loaded.draft}", file=sys.stderr)


def _json(loaded: "Loaded", answer: "Answer", tokens: bool, alignment: bool) -> str:
    """An answer as a line of JSON, with what was asked for besides."""
    from jumok.config_io import to_dict
    from jumok.tasks.pipeline.outputs import Rewriting

    tree = to_dict(answer)
    if not tokens:
        tree.pop("tokens", None)
    if alignment and isinstance(answer, Rewriting):
        from jumok.tasks.told import aligned

        tree |= to_dict(aligned(loaded, answer))
    return json.dumps(tree, ensure_ascii=False)


def _answers(loaded: "Loaded", texts: list[str]) -> "Iterator[Answer]":
    """The answers to some texts; before one that cannot be asked, all the others are given."""
    from jumok.errors import InputError

    try:
        yield from loaded.answer(texts)
    except InputError:
        for text in texts:
            yield from loaded.answer([text])


def _for_n_best(loaded: "Loaded", words: list[str], n: int) -> list[str]:
    """The words that ask for n answers; a beam is widened to hold them."""
    _refuse_unwritten(loaded, "--n-best")
    search = loaded.with_decoding(words).recipe.decoding
    widened = not search.sample and search.beam < n
    return [*([f"beam={n}"] if widened else []), f"n_best={n}"]


def _refuse_options(texts: list[str], known: list[str]) -> None:
    """Raises InputError for a mistyped option: it must not be answered as if it were a text."""
    from jumok.config_io import suggest
    from jumok.errors import InputError

    for text in texts:
        if re.fullmatch(r"--[a-z][a-z-]*(=.*)?", text):
            raise InputError(
                f"{text} is no option of jumok predict ({suggest(text.partition('=')[0], known)}); "
                "a text that looks like one is read from stdin"
            )


def _refuse_unwritten(loaded: "Loaded", options: str) -> None:
    """Raises InputError where a model writes nothing."""
    from jumok.errors import InputError
    from jumok.tasks.recipe.task_spec import WRITING

    if loaded.recipe.task not in WRITING:
        raise InputError(
            f"a model of the task {loaded.recipe.task} writes nothing; leave {options} out"
        )


def _refuse_telling(loaded: "Loaded", as_json: bool) -> None:
    """Raises InputError where --tokens or --alignment have nothing to be told of, or nowhere."""
    from jumok.errors import InputError

    _refuse_unwritten(loaded, "--tokens and --alignment")
    if not as_json:
        raise InputError("--tokens and --alignment are told in JSON; add --json")


def _refuse_stream(loaded: "Loaded", as_json: bool) -> None:
    """Raises InputError for what cannot be shown while it is written."""
    from jumok.errors import InputError

    decoding = loaded.recipe.decoding
    if as_json:
        raise InputError("--stream shows parts of a text and --json whole answers; choose one")
    if decoding.n_best > 1:
        raise InputError(f"--stream shows one answer, {decoding.n_best} were asked for; choose one")
    if decoding.beam > 1:
        raise InputError(
            f"a beam of {decoding.beam} decides at the end of a text, so there is nothing to "
            "stream; add --decoding beam=1"
        )


def _stream(loaded: "Loaded", text: str) -> None:
    """One answer, its parts as they come."""
    from jumok.tasks.pipeline.task import Writing

    def show(part: str) -> None:
        sys.stdout.write(part)
        sys.stdout.flush()

    assert isinstance(loaded.task, Writing)  # others refused --stream's settings
    loaded.refuse_longer([text])
    answer = loaded.task.stream(loaded, text, show)
    show("\n")
    _tell_loop(answer)


def _tell_loop(answer: "Answer") -> None:
    """Where an answer says the same over and over, that goes to stderr."""
    from jumok.tasks.pipeline.outputs import Rewriting

    if isinstance(answer, Rewriting) and answer.loop is not None:
        print(f"jumok: the answer to {answer.text[:40]!r} loops: {answer.loop}", file=sys.stderr)


def _chunks() -> Iterator[list[str]]:
    """The lines of stdin, several at a time where they are all there already."""
    from jumok.cli.stdin import lines_of_stdin, open_stdin
    from jumok.errors import JumokError

    most = CHUNK if stat.S_ISREG(os.fstat(open_stdin().fileno()).st_mode) else 1
    chunk: list[str] = []
    letters = 0
    try:
        for line in lines_of_stdin():
            chunk.append(line)
            letters += len(line)
            if len(chunk) == most or letters > CHUNK_LETTERS:
                yield chunk
                chunk, letters = [], 0
    except JumokError:  # what came before a bad line is answered
        yield chunk
        raise
    yield chunk
