"""jumok data build and jumok data assemble: make corpora from their sources."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from jumok.errors import DataError, Message
from jumok.language import translate
from jumok.terminal import print_json, print_line, print_notice

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON lines.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a corpus; see jumok data list.")]


def build(
    name: Name,
    clones: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FOLDER", help="Use clones in a folder instead of fetching them."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a corpus without an address (koen, enko, ynat, nsmc-text) from public repositories.

    Reads pinned commits with git; the files must have the known checksums.
    """
    from jumok.data.corpora.registry import corpus_by_name
    from jumok.lab.rebuild.rebuild import build_corpus

    corpus = corpus_by_name(name)
    print_notice(f"{name}: {_megabytes(corpus.size)}, {corpus.licence}")
    for path in build_corpus(corpus, clones):
        if as_json:
            print_json({"corpus": name, "file": str(path)})
        else:
            print_line(translate("{}  verified", path))


def assemble(
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file. [default: in the user cache]")
    ] = None,
    sentences: Annotated[
        int,
        typer.Option(min=0, help="Write at most this many random sentences of each source."),
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Make the text of ko-small from its sources in JUMOK_DATA: licences and counts of each.

    Duplicates and every text that repeats a sentence of a dev or test set are left out; afterwards
    the file is read again to prove it.
    """
    from jumok.data.corpora.korean_text import KO_SMALL, SOURCES
    from jumok.data.corpora.paths import downloads
    from jumok.lab.assemble_korean import assemble_korean, assemble_sentences, repeated_lines

    path = out or downloads(KO_SMALL.name) / (
        "sentences.txt" if sentences else KO_SMALL.files[0].name
    )
    assembly = assemble_sentences(path, sentences) if sentences else assemble_korean(path)
    for source in SOURCES:
        counts = assembly.counts[source.name]
        if as_json:
            print_json({"source": source.name, "licence": source.licence, **asdict(counts)})
        else:
            print_line(f"{source.name:<15} {source.domain}; {source.licence}")
            template = "{:,} of {:,} lines, {}; left out: {:,} duplicates, {:,} held out"
            numbers = counts.kept, counts.read, _megabytes(counts.bytes)
            left_out = counts.duplicates, counts.held_out
            print_line(f"{'':<15} {translate(template, *numbers, *left_out)}")
    repeated = repeated_lines(path, evaluation=bool(sentences))
    if repeated:
        raise DataError(
            "data.held_out_repeated",
            "{path} must repeat no sentence of a dev or test set, got {n_repeated:,} lines, the "
            "first {repeated!r}; report this as a bug",
            path=path,
            n_repeated=len(repeated),
            repeated=repeated[0],
        )
    print_notice(
        Message(
            "data.repeats_none_held_out",
            "{path}  repeats none of {n_held_out:,} held-out texts",
            path=path,
            n_held_out=len(assembly.held_out),
        )
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
