"""jumok translate: a document in another language, in the same format."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jumok.cli.options import (
    DecodingOverrides,
    DeviceOption,
    apply_decoding,
    find_engine,
    load_ensemble,
    print_decoding,
    run_argument,
)
from jumok.errors import UsageError
from jumok.extras import check_installed
from jumok.terminal import print_message

if TYPE_CHECKING:
    from jumok.tasks.pipeline.translation import TextModel, TranslatedDocument

app = typer.Typer(rich_markup_mode=None, add_completion=False)

MAX_BYTES = 2**28
_OTHERS = "doc docx epub hwp hwpx odp ods odt pdf ppt pptx rtf xls xlsx"
OTHER_SUFFIXES = frozenset(f".{name}" for name in _OTHERS.split())  # of what is not written
SHOWN_WARNINGS = 20
COUNT_SECONDS = 2.0


@app.command()
def translate(
    run: Annotated[Path, run_argument("A run, or the name of a model.", metavar="MODEL")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A document; - for stdin.")],
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FILE", help="The file to write. [default: stdout]"),
    ] = None,
    format: Annotated[  # noqa: A002  the name of the option
        str | None,
        typer.Option(
            "--format",
            help="text, wrapped, html, markdown, po, srt or vtt. [default: by the name of FILE]",
        ),
    ] = None,
    glossary: Annotated[
        Path | None, typer.Option("--glossary", metavar="TSV", help="Terms and their translations.")
    ] = None,
    memory: Annotated[
        Path | None,
        typer.Option(
            "--memory",
            metavar="TSV",
            help="Sentences that are translated already; new ones are added.",
        ),
    ] = None,
    decoding: DecodingOverrides = None,
    device: DeviceOption = "auto",
) -> None:
    """Translate a document: text, HTML, Markdown, .po, .srt, .vtt or .docx.

    The same command continues a translation that was stopped.
    """
    from jumok.atomic_io import write_atomically
    from jumok.documents import format_of
    from jumok.documents.glossary import Glossary
    from jumok.documents.memory import Memory
    from jumok.tasks.pipeline.translation import translate_document
    from jumok.text_files import decode_text

    _check_document(file)
    _check_output(file, to)
    write: Callable[[str], bytes] = str.encode
    if format is None and file.suffix.lower() == ".docx":
        _check_word_output(to)
        check_installed("jumok translate of .docx", "lxml")
        from jumok.documents.docx import read

        kind = "html"
        source, write = read(_read(file))
    else:
        kind = format or ("text" if str(file) == "-" else format_of(file))
        _check_suffix(file, kind, to)
        source = decode_text(file, _read(file))
    terms = None if glossary is None else Glossary.read(glossary)
    model, key = _open(run, decoding or [], device)
    unfinished = None if to is None or memory else to.with_name(f"{to.name}.{key}.tsv")
    path = memory or unfinished
    known = None if path is None else Memory.open(path, unfinished=path == unfinished)
    if known is not None and memory is None:
        known.named = to  # in errors: the name that was given
    found = translate_document(
        model,
        source,
        format=kind,
        glossary=terms,
        memory=known,
        progress=_Count(),
    )
    if to is None:
        sys.stdout.write(found.text)
    else:
        write_atomically(to, write(found.text))
        if unfinished is not None:
            unfinished.unlink(missing_ok=True)
    _report(found)


def _check_document(file: Path) -> None:
    """Raise UsageError for a document that is a folder, and StorageError for a missing one."""
    from jumok.atomic_io import storage_errors

    if str(file) == "-":
        return
    with storage_errors(f"{file}: cannot be read"):
        file.stat()
    if file.is_dir():
        raise UsageError(
            "cli.translate_folder",
            "a document must be a file, got the folder {file}; name a file in it",
            file=str(file),
        )


def _check_output(file: Path, to: Path | None) -> None:
    """Raise UsageError for a translation that cannot be written, or that replaces its source."""
    if to is None:
        return
    is_source = to.exists() and file.exists() and to.samefile(file)
    if to.is_dir() or not to.parent.is_dir() or is_source:
        raise UsageError(
            "cli.translate_to",
            "--to must be a new file in a folder that exists, other than {file}, got {to}",
            file=str(file),
            to=str(to),
        )


def _check_suffix(file: Path, kind: str, to: Path | None) -> None:
    """Raise UsageError if the name of the translation is that of another format than its own."""
    from jumok.documents.document import SUFFIXES

    suffix = "" if to is None else to.suffix.lower()
    own = {"wrapped": "text"}.get(kind, kind)
    of_name = SUFFIXES.get(suffix, "another" if suffix in OTHER_SUFFIXES else own)
    if suffix != file.suffix.lower() and of_name != own:
        raise UsageError(
            "cli.translate_to_suffix",
            "the translation of a document of the format {format} must be written to a file of "
            "this format, got {to}; give it another suffix, or name the format of the document "
            "with --format",
            format=kind,
            to=str(to),
        )


def _check_word_output(to: Path | None) -> None:
    """Raise UsageError for a Word document that would be printed or get another suffix."""
    if to is None or to.suffix.lower() != ".docx":
        raise UsageError(
            "cli.translate_to_docx",
            "the translation of a .docx file must be written to a .docx file, got {to}; add "
            "--to NAME.docx",
            to="none" if to is None else str(to),
        )


def _read(file: Path) -> bytes:
    from jumok.atomic_io import read_regular

    return sys.stdin.buffer.read() if str(file) == "-" else read_regular(file, MAX_BYTES)


def _open(run: Path, decoding: list[str], device: str) -> "tuple[TextModel, str]":
    """The model, and a key of it and its settings, in the name of an unfinished translation."""
    from hashlib import sha256

    from jumok.engine.generation import GenerationModel

    engine = find_engine(run, None, device, decoding)
    if isinstance(engine, GenerationModel):
        print_decoding(engine)
        model: TextModel = engine
        settings = f"{engine.run.weights_sha256} {engine.decoding_summary}"
    else:
        model = apply_decoding(load_ensemble(run, None, device=device), decoding)
        settings = f"{run.absolute()} {decoding}"
    return model, sha256(settings.encode()).hexdigest()[:8]


class _Count:
    """Prints how many sentences are done, at most every two seconds."""

    def __init__(self) -> None:
        self._next = time.monotonic() + COUNT_SECONDS

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + COUNT_SECONDS
            print_message(
                "cli.translated",
                "translated {done:,} of {total:,} sentences",
                done=done,
                total=total,
            )


def _report(found: "TranslatedDocument") -> None:
    """Print to stderr what to look at, and what was computed."""
    for warning in found.warnings[:SHOWN_WARNINGS]:
        print_message(
            "cli.translation_warning",
            "line {line:,}: {code}: {message}",
            line=warning.line,
            code=warning.code,
            message=warning.message,
        )
    print_message(
        "cli.translated_document",
        "sentences: {sentences:,}, computed: {computed:,}, warnings: {warnings:,}",
        sentences=found.sentences,
        computed=found.computed,
        warnings=len(found.warnings),
    )
