"""jumok vocab: train a SentencePiece vocabulary, encode and decode, and measure its fit."""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from jumok.cli.options import run_argument
from jumok.cli.stdin import read_lines
from jumok.errors import UsageError
from jumok.language import translate
from jumok.terminal import pad, print_json, print_line

if TYPE_CHECKING:
    from jumok.text import SentencePieceTokenizer, VocabularyReport

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    help="Train, use and examine a SentencePiece vocabulary.",
)

BATCH_SIZE = 1000  # lines encoded together

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Model = Annotated[Path, run_argument("A .model file, or the folder of a run.", metavar="MODEL")]
Inputs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILE]...",
        help="Text files, one text per line, also .gz and .xz. [default: stdin]",
    ),
]
Column = Annotated[
    str | None, typer.Option(metavar="NAME", help="Column of TSV, CSV or JSON-lines files.")
]


@app.command()
def train(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Output file (.model).")],
    files: Inputs = None,
    column: Column = None,
    kind: Annotated[
        Literal["unigram", "bpe", "char"], typer.Option(help="Segmentation algorithm.")
    ] = "unigram",
    size: Annotated[
        int, typer.Option(help="Number of pieces, including the seven special ones.")
    ] = 8000,
    normalization: Annotated[
        Literal["nfc", "none"], typer.Option(help="Unicode normalization of the texts.")
    ] = "nfc",
    character_coverage: Annotated[
        float, typer.Option(help="Fraction of the characters to cover with pieces.")
    ] = 0.9995,
    byte_fallback: Annotated[
        bool,
        typer.Option("--byte-fallback", help="Encode other characters as bytes instead of [UNK]."),
    ] = False,
    split_digits: Annotated[
        bool, typer.Option("--split-digits", help="Make every digit its own piece.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a vocabulary on texts; the same texts give the same file."""
    from jumok.text import SentencePieceTokenizer, VocabularyConfig

    config = VocabularyConfig(
        kind=kind,
        size=size,
        normalization=normalization,
        character_coverage=character_coverage,
        byte_fallback=byte_fallback,
        split_digits=split_digits,
    )
    tokenizer = SentencePieceTokenizer.train(_texts(files, column), config)
    tokenizer.save(out)
    answer = _describe(tokenizer) | {"file": str(out), "sha256": tokenizer.fingerprint}
    if as_json:
        print_json(answer)
    else:
        print_line(translate("{}: {} pieces", out, len(tokenizer)))


@app.command()
def add(
    model: Model,
    words: Annotated[
        Path, typer.Argument(metavar="WORDS", help="The words, one per line, also .gz and .xz.")
    ],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="OUT", help="The new file (.model), or folder of a run."),
    ],
    side: Annotated[
        Literal["source", "target", "both"] | None,
        typer.Option(help="Which of the two vocabularies of a run. [default: source]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Add words to a trained vocabulary, or to the vocabulary and the model of a run.

    Texts without these words are segmented as before. In a run, the row of a new piece begins as
    the mean of the rows of the pieces that the word had.
    """
    lines = list(_texts([str(words)], None))
    if model.is_dir():
        from jumok.tasks.runs.add_vocabulary import add_vocabulary

        grown = add_vocabulary(model, lines, out, side)
        tokenizer = list(grown.added.values())[-1].tokenizer
    else:
        from jumok.text.added_words import add_words

        if side is not None:
            raise UsageError(
                "cli.side_of_vocabulary_file",
                "side must be left out for a vocabulary file, got {side}",
                side=side,
            )
        tokenizer = add_words(_load_tokenizer(model), lines).tokenizer
        if out.exists():
            raise UsageError("cli.exists", "{out} must not exist; choose another name", out=out)
        tokenizer.save(out)
    if as_json:
        added = {"file": str(out), "added": len(lines), "sha256": tokenizer.fingerprint}
        print_json(_describe(tokenizer) | added)
    else:
        template = "{}: {:,} pieces, {:,} of them new"
        print_line(translate(template, out, len(tokenizer), len(lines)))


@app.command()
def encode(
    model: Model,
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TEXT]...", help="Texts. [default: the lines of stdin]"),
    ] = None,
    ids: Annotated[bool, typer.Option("--ids", help="Print ids instead of pieces.")] = False,
    sample: Annotated[
        float | None,
        typer.Option(metavar="ALPHA", help="Sample a segmentation with this alpha; 0.1 is usual."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of --sample.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Print the pieces (or ids) of each text, one text per line."""
    tokenizer = _load_tokenizer(model)
    lines = iter(texts) if texts else _texts(None, None)
    number = 0
    while batch := list(islice(lines, BATCH_SIZE)):
        if sample is None:
            rows = tokenizer.encode_batch(batch)
        else:
            rows = tokenizer.sample_batch(batch, alpha=sample, seed=seed + number)
        for text, row in zip(batch, rows, strict=True):
            pieces = [tokenizer.piece(i) for i in row]
            if as_json:
                print_json({"text": text, "pieces": pieces, "ids": row})
            else:
                print_line(" ".join(map(str, row) if ids else map(_visible, pieces)))
        number += 1


@app.command()
def decode(
    model: Model,
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID]...", help="Ids. [default: the lines of stdin, one row of ids each]"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the text of each row of ids, without special pieces."""
    tokenizer = _load_tokenizer(model)
    for line in [" ".join(ids)] if ids else _texts(None, None):
        row = [_id(token) for token in line.replace(",", " ").split()]
        text = tokenizer.decode(row)
        if as_json:
            print_json({"ids": row, "text": text})
        else:
            print_line(text)


@app.command()
def report(
    model: Model,
    files: Inputs = None,
    column: Column = None,
    examples: Annotated[int, typer.Option(min=0, help="How many lossy texts to show.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Measure a vocabulary on texts: unknown rate, tokens per character, lossy texts."""
    from jumok.text.vocabulary_report import measure_vocabulary

    tokenizer = _load_tokenizer(model)
    found = measure_vocabulary(tokenizer, _texts(files, column), examples=examples)
    if as_json:
        rates = {
            "unknown_rate": found.unknown_rate,
            "tokens_per_character": found.tokens_per_character,
            "tokens_per_eojeol": found.tokens_per_eojeol,
        }
        print_json({**asdict(found), **rates, "special_ids": tokenizer.special_ids})
        return
    for line in _report_lines(tokenizer, found):
        print_line(line)


def _report_lines(tokenizer: "SentencePieceTokenizer", found: "VocabularyReport") -> list[str]:
    special = "  ".join(f"{name} {i}" for name, i in tokenizer.special_ids.items())
    normalization = found.normalization or translate("no")
    rows: dict[str, tuple[str, *tuple[object, ...]]] = {
        "vocabulary": ("{:,} pieces, {}, {} normalization", found.size, found.kind, normalization),
        "special pieces": (special or translate("none"),),
        "texts": (
            "{:,} with {:,} characters, {:,} eojeols",
            found.texts,
            found.characters,
            found.eojeols,
        ),
        "tokens": (f"{found.tokens:,}",),
        "tokens per character": (f"{found.tokens_per_character:.3f}",),
        "tokens per eojeol": (f"{found.tokens_per_eojeol:.3f}",),
        "unknown": ("{:,} tokens, {:.4%}", found.unknown_tokens, found.unknown_rate),
        "recomposed": ("{:,} texts changed by normalization", found.recomposed_texts),
        "lost": ("{:,} texts change when encoded and decoded", found.lost_texts),
    }
    if found.missing:
        rows["without a piece"] = ("  ".join(f"{p} {n}" for p, n in found.missing),)
    lines = [f"{pad(translate(name), 22)}{translate(*row)}" for name, row in rows.items()]
    for loss in found.losses:
        template = "  {!r} -> {!r} in {!r}"
        lines.append(translate(template, loss.expected, loss.got, loss.text))
    return lines


def _describe(tokenizer: "SentencePieceTokenizer") -> dict[str, object]:
    return {
        "size": len(tokenizer),
        "kind": tokenizer.kind,
        "normalization": tokenizer.normalization,
        "byte_fallback": tokenizer.byte_fallback,
        "special_ids": tokenizer.special_ids,
    }


def _load_tokenizer(path: Path) -> "SentencePieceTokenizer":
    from jumok.text import SentencePieceTokenizer

    return SentencePieceTokenizer.load(path / "vocabulary.model" if path.is_dir() else path)


def _texts(files: list[str] | None, column: str | None) -> Iterator[str]:
    """The lines of all files, or one of their columns; without files, the lines of stdin."""
    from jumok.data.files.tables import format_of, read_table

    if column is not None and not files:
        raise UsageError(
            "cli.column_needs_file",
            "--column {column} needs a file; give a TSV, CSV or JSON-lines file",
            column=column,
        )
    for name in files or []:
        path = Path(name)
        if column is None:
            table = read_table(path, ["text"], format="lines", empty="keep")
        else:
            known = format_of(path)
            kind = "tsv" if known == "lines" else known
            table = read_table(path, {"text": column}, format=kind, empty="keep")
        yield from table.column("text")
    if not files:
        yield from read_lines()


def _visible(piece: str) -> str:
    """A piece with line breaks and tabs escaped."""
    return piece.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")


def _id(token: str) -> int:
    if not (token.isascii() and token.removeprefix("-").isdigit()):
        raise UsageError(
            "cli.ids_not_integers",
            "ids must be integers, got {token!r}; use the output of `encode --ids`",
            token=token,
        )
    return int(token)
