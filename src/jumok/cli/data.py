"""jumok data: the known corpora, where they come from, and whether they are here and whole."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from jumok.data.corpus import Corpus

app = typer.Typer(no_args_is_help=True, help="Known corpora: list, get, verify.")

AsJson = Annotated[bool, typer.Option("--json", help="JSON lines on stdout, nothing else.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A corpus of jumok data list.")]


@app.command("list")
def list_corpora(as_json: AsJson = False) -> None:
    """Every known corpus: licence, size, where it comes from, and whether it is here."""
    from jumok.data.known import CORPORA

    if as_json:
        _print_json(_described(corpus) for corpus in CORPORA.values())
        return
    for corpus in CORPORA.values():
        row = _described(corpus)
        typer.echo(f"{row['name']:<15} {row['about']}")
        typer.echo(f"{'':<15} {_size(row['bytes'])} · {row['licence']} · {row['home']}")
        typer.echo(f"{'':<15} {_presence(row, corpus.how_to_get)}")


@app.command()
def get(
    name: Name,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE_OR_FOLDER", help="Take a local copy instead."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch a corpus into the user's cache, going on where a download broke off; all is checked."""
    from jumok.data.download import get_corpus, take_corpus
    from jumok.data.known import known_corpus

    corpus = known_corpus(name)
    typer.echo(f"{name}: {_size(corpus.size)}, {corpus.licence}", err=True)
    for path in take_corpus(corpus, source) if source else get_corpus(corpus):
        if as_json:
            _print_json([{"corpus": name, "file": str(path)}])
        else:
            typer.echo(f"{path}  checked")


@app.command()
def verify(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One corpus only.")] = None,
    overlap: Annotated[
        bool, typer.Option("--overlap", help="Count the rows of NAME that are in train as well.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check the sha256 of every file that is here; fails when one is damaged."""
    from jumok.data.download import state_of
    from jumok.data.known import CORPORA, known_corpus
    from jumok.errors import InputError

    damaged: list[str] = []
    for corpus in CORPORA.values() if name is None else [known_corpus(name)]:
        for file, (state, path) in state_of(corpus).items():
            if as_json:
                row = {"corpus": corpus.name, "file": file, "state": state}
                _print_json([row | {"path": str(path) if path else None}])
            else:
                typer.echo(f"{state:<8} {corpus.name}/{file}{f'  {path}' if path else ''}")
            if state == "damaged":
                damaged.append(str(path))
    if damaged:
        raise InputError(
            f"{', '.join(damaged)}: not the known content; delete it and fetch it again "
            "with jumok data get"
        )
    if overlap:
        if name is None:
            raise InputError("--overlap reads a whole corpus; name one")
        _tell_overlap(known_corpus(name), as_json)


def _tell_overlap(corpus: "Corpus", as_json: bool) -> None:
    from jumok.data.config import DataConfig
    from jumok.data.corpora import load_splits
    from jumok.data.overlap import overlap

    splits = load_splits(DataConfig(corpus=corpus.name), tuple(corpus.columns))
    for split, found in overlap(splits).items():
        if as_json:
            _print_json([{"corpus": corpus.name, "split": split, **asdict(found)}])
        else:
            typer.echo(
                f"{split}: of {found.rows:,} rows {found.inputs:,} have an input that is in train "
                f"too, {found.whole_rows:,} with the same answer"
            )


def _described(corpus: "Corpus") -> dict[str, str | int | bool | None]:
    from jumok.data.finding import corpus_folders, find_file

    found = [find_file(corpus_folders(corpus.folder_of(file)), file.name) for file in corpus.files]
    paths = [path for path in found if path is not None]
    return {
        "name": corpus.name,
        "about": corpus.about,
        "licence": corpus.licence,
        "redistributable": corpus.redistributable,
        "bytes": corpus.size,
        "home": corpus.home,
        "present": len(paths) == len(found),
        "folder": str(paths[0].parent) if paths else None,
    }


def _presence(row: dict[str, str | int | bool | None], get: str) -> str:
    if row["folder"]:
        return f"{'here' if row['present'] else 'in part here'}: {row['folder']}"
    return "always here" if row["present"] else f"not here: {get}"


def _size(size: str | int | bool | None) -> str:
    return f"{int(size) / 1e6:.1f} MB" if size else "no files"


def _print_json(rows: Iterable[object]) -> None:
    for row in rows:
        typer.echo(json.dumps(row, ensure_ascii=False))
