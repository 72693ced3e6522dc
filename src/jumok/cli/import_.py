"""jumok import: convert a Hugging Face checkpoint to jumok's format."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jumok.terminal import print_message

if TYPE_CHECKING:
    from jumok.tasks.runs.import_checkpoint import ImportedCheckpoint

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command("import")
def import_(
    checkpoint: Annotated[
        str,
        typer.Argument(
            metavar="CHECKPOINT",
            help="Hugging Face model folder, OWNER/NAME on the hub, or a GGUF file.",
        ),
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="New folder for the imported model.")],
    revision: Annotated[
        str | None, typer.Option(metavar="HASH", help="Commit of the hub repository.")
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            metavar="CHECKPOINT",
            help="Checkpoint of a LoRA adapter. [default: the one on the Hub that it names]",
        ),
    ] = None,
) -> None:
    """Import a Hugging Face checkpoint (BERT, RoBERTa, ELECTRA, GPT-2, T5, BART, Marian ...).

    OUT works with predict, evaluate, view, export and, as model.init=OUT, with train.
    """
    from jumok.pretrained.hub import resolve
    from jumok.tasks.runs.import_checkpoint import converter_of, import_checkpoint

    path = Path(checkpoint)
    if not path.is_file() or converter_of(path) is None:
        path = resolve(checkpoint, revision)
    _report(import_checkpoint(path, out, base), out)


def _report(found: "ImportedCheckpoint", out: Path) -> None:
    """Print what was imported."""
    from jumok.models.weights import named_weights

    parameters = sum(p.numel() for p in named_weights(found.model).values())
    print_message(
        "cli.imported",
        "{out}: {architecture}, {parameters:,} parameters",
        out=out,
        architecture=found.origin.architecture,
        parameters=parameters,
    )
    if found.tokenizers is None:
        print_message(
            "cli.checkpoint_no_tokenizer",
            "the checkpoint has no tokenizer files: the model accepts token ids only",
        )
