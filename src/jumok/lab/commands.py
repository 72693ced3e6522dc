"""jumok data build and jumok data assemble: make corpora from their sources."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from jumok.errors import DataError, Message, UsageError
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
    name: Annotated[
        str,
        typer.Argument(metavar="[NAME]", help="ko-small, a text; koen-small or enko-small, pairs."),
    ] = "ko-small",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="The file, or the folder of the pairs. [default: in the user cache]",
        ),
    ] = None,
    sentences: Annotated[
        int,
        typer.Option(min=0, help="Write at most this many random sentences of each source."),
    ] = 0,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Write the pairs of the recipe reranker.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make the text of ko-small, or the pairs of a translator, from sources in JUMOK_DATA.

    Duplicates and every text that repeats a sentence of a dev or test set are left out; afterwards
    the file of ko-small is read again to prove it. Prints the licence and the counts of each.
    """
    if name in ("koen-small", "enko-small"):
        _assemble_translation(name, out, as_json, options=bool(sentences or pairs))
        return
    if name != "ko-small":
        raise DataError(
            "data.not_assembled",
            "the corpus must be ko-small, koen-small or enko-small, got {name!r}; jumok data build "
            "or jumok data get makes others",
            name=name,
        )
    if pairs:
        _assemble_pairs(out or Path("runs/pairs.tsv"), sentences, as_json)
        return
    from jumok.data.corpora.paths import downloads
    from jumok.lab.assemble_korean import (
        SOURCES,
        assemble_korean,
        assemble_sentences,
        repeated_lines,
    )

    path = out or downloads(name) / ("sentences.txt" if sentences else "ko-small.txt")
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


def _assemble_pairs(path: Path, sentences: int, as_json: bool) -> None:
    if sentences:
        raise UsageError(
            "cli.pairs_or_sentences", "--pairs and --sentences write different files; give one"
        )
    from jumok.lab.assemble_pairs import assemble_pairs

    for source, rows in assemble_pairs(path).items():
        if as_json:
            print_json({"source": source, "rows": rows})
        else:
            print_line(translate("{}  {:,} rows", source, rows))


def _assemble_translation(name: str, out: Path | None, as_json: bool, *, options: bool) -> None:
    from jumok.data.corpora.korean_english import PAIR_SOURCES
    from jumok.data.corpora.paths import downloads
    from jumok.data.corpora.registry import corpus_by_name
    from jumok.lab.assemble_translation import assemble_translation

    if options:
        raise DataError(
            "data.options_of_ko_small",
            "--sentences and --pairs must be left out for {name}; they are of ko-small",
            name=name,
        )
    counts = assemble_translation(out or downloads(name), corpus_by_name(name))
    for source in (source for source in PAIR_SOURCES if source.name in counts):
        count = counts[source.name]
        if as_json:
            print_json({"source": source.name, "licence": source.licence, **asdict(count)})
            continue
        print_line(f"{source.name:<15} {source.domain}; {source.licence}")
        template = "{:,} of {:,} pairs, {:,} held out; {:,} rows"
        numbers = count.read - count.held_out, count.read, count.held_out, count.written
        print_line(f"{'':<15} {translate(template, *numbers)}")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
