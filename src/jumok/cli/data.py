"""jumok data: check own files; list, download, build and verify the known corpora."""

from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jumok.cli import completion
from jumok.cli.options import json_option
from jumok.errors import UsageError, and_list
from jumok.language import localize, translate
from jumok.registry import Registry
from jumok.terminal import escape_control, pad, print_json, print_line, print_message, print_notice

if TYPE_CHECKING:
    from jumok.data.corpora.corpus import Corpus

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    help="Check your own files; list, download, build and verify the known corpora.",
)

COMMANDS = Registry[Callable[..., None]](
    "jumok.data_commands",
    "command",
    {"build": "jumok.lab.commands:build", "assemble": "jumok.lab.commands:assemble"},
)

AsJson = Annotated[bool, json_option("Print JSON lines.")]
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        autocompletion=completion.corpora,
        help="Name of a corpus; see jumok data list.",
    ),
]


@app.command("list")
def list_corpora(as_json: AsJson = False) -> None:
    """List all known corpora with licence, size, source, and whether they are downloaded."""
    from jumok.data.corpora.registry import CORPORA

    if as_json:
        _print_json(_describe(corpus) for corpus in CORPORA.values())
        return
    for corpus in CORPORA.values():
        row = _describe(corpus)
        print_line(f"{row['name']:<15} {localize(row['about'])}")
        print_line(f"{'':<15} {_size(row['bytes'])} · {row['licence']} · {row['home']}")
        print_line(f"{'':<15} {_presence(row, corpus.fetch_command)}")


@app.command()
def get(
    name: Name,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FILE_OR_FOLDER", help="Use a local copy instead of downloading."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Download a corpus to the user cache; resumes interrupted downloads, verifies checksums."""
    from jumok.data.corpora.download import copy_corpus, download_corpus
    from jumok.data.corpora.registry import corpus_by_name

    corpus = corpus_by_name(name)
    print_notice(f"{name}: {_size(corpus.size)}, {corpus.licence}")
    for path in copy_corpus(corpus, source) if source else download_corpus(corpus):
        if as_json:
            _print_json([{"corpus": name, "file": str(path)}])
        else:
            print_line(translate("{}  verified", path))


@app.command()
def check(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A file of training rows: TSV, CSV, JSON or text; or a recipe."
        ),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[key=value ...]",
            autocompletion=completion.settings,
            help="Settings of the recipe, such as data.test=FILE or data.text=COLUMN.",
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="Task that reads the file. [default: classification]")
    ] = None,
    as_json: Annotated[bool, json_option("Print the report as one JSON object.")] = False,
) -> None:
    """Report what a training would read of a file: labels, repeated rows, lengths, bad rows.

    Exits with code 1 if a row cannot be used, unless data.on_bad_rows is skip.
    """
    from jumok.tasks.recipe.recipe import load_recipe, recipe_of_file
    from jumok.tasks.runs.check_data import check_data

    if file.endswith(".toml"):
        recipe = load_recipe(file, [*(overrides or []), *([f"task={task}"] if task else [])])
    else:
        recipe = recipe_of_file(file, task or "classification", overrides or [])
    report, tables = check_data(recipe)
    bad_rows = [table.bad_rows for table in tables.values() if table.bad_rows.count]
    if as_json:
        print_json(asdict(report))
    else:
        for message in report.messages():
            print_line(escape_control(localize(message)))
    if report.lengths is None:
        print_message(
            "cli.lengths_not_compared",
            "no text was compared with max_length: the training makes the vocabulary, or the "
            "task reads a long text in parts",
        )
    for rows in bad_rows:
        print_notice(rows.listed)
    if bad_rows and recipe.data.on_bad_rows == "stop":
        raise typer.Exit(1)


for _name in COMMANDS.names():
    app.command(_name)(COMMANDS.get(_name))


@app.command()
def verify(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", autocompletion=completion.corpora, help="Check only this corpus."
        ),
    ] = None,
    overlap: Annotated[
        bool,
        typer.Option("--overlap", help="Count rows of NAME that also occur in its train split."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Verify the sha256 of all downloaded files; fails if a file is damaged."""
    from jumok.data.corpora.download import corpus_status
    from jumok.data.corpora.registry import CORPORA, corpus_by_name

    damaged: list[str] = []
    commands: dict[str, None] = {}
    for corpus in CORPORA.values() if name is None else [corpus_by_name(name)]:
        for file, (state, path) in corpus_status(corpus).items():
            if as_json:
                row = {"corpus": corpus.name, "file": file, "state": state}
                _print_json([row | {"path": str(path) if path else None}])
            else:
                print_line(
                    f"{pad(translate(state), 8)} {corpus.name}/{file}{f'  {path}' if path else ''}"
                )
            if state == "damaged":
                damaged.append(str(path))
                commands[corpus.fetch_command] = None
    if damaged:
        raise UsageError(
            "cli.checksum_mismatch",
            "{damaged}: checksum mismatch; delete the file and get it again with {commands}",
            damaged=", ".join(damaged),
            commands=and_list(commands),
        )
    if overlap:
        if name is None:
            raise UsageError("cli.overlap_without_corpus", "--overlap needs the NAME of one corpus")
        _print_overlap(corpus_by_name(name), as_json)


def _print_overlap(corpus: "Corpus", as_json: bool) -> None:
    from jumok.data.config import DataConfig
    from jumok.data.contamination import contamination
    from jumok.data.load import load_splits

    splits = load_splits(DataConfig(corpus=corpus.name), tuple(corpus.columns))
    for split, found in contamination(splits).items():
        if as_json:
            _print_json([{"corpus": corpus.name, "split": split, **asdict(found)}])
        else:
            template = (
                "{}: {:,} of {:,} inputs also occur in train, {:,} of them with the same label"
            )
            print_line(translate(template, split, found.inputs, found.rows, found.whole_rows))


def _describe(corpus: "Corpus") -> dict[str, str | int | bool | None]:
    from jumok.data.corpora.paths import corpus_folders, find_file

    found = [find_file(corpus_folders(corpus.folder(file)), file.name) for file in corpus.files]
    paths = [path for path in found if path is not None]
    return {
        "name": corpus.name,
        "about": corpus.description,
        "licence": corpus.licence,
        "redistributable": corpus.redistributable,
        "bytes": corpus.size,
        "home": corpus.url,
        "present": len(paths) == len(found),
        "folder": str(paths[0].parent) if paths else None,
    }


def _presence(row: dict[str, str | int | bool | None], get: str) -> str:
    if row["folder"]:
        return f"{translate('present' if row['present'] else 'incomplete')}: {row['folder']}"
    return translate("built in") if row["present"] else translate("not downloaded: {}", get)


def _size(size: str | int | bool | None) -> str:
    return f"{int(size) / 1e6:.1f} MB" if size else translate("no files")


def _print_json(rows: Iterable[object]) -> None:
    for row in rows:
        print_json(row)
