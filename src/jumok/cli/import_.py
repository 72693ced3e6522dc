"""jumok import: convert a Hugging Face checkpoint to jumok's format."""

from pathlib import Path
from typing import Annotated

import typer

from jumok.terminal import print_notice

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command("import")
def import_(
    checkpoint: Annotated[
        str,
        typer.Argument(
            metavar="CHECKPOINT",
            help="Hugging Face model folder, or OWNER/NAME on the hub.",
        ),
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="New folder for the imported model.")],
    revision: Annotated[
        str | None, typer.Option(metavar="HASH", help="Commit of the hub repository.")
    ] = None,
) -> None:
    """Import a Hugging Face checkpoint (BERT, RoBERTa, ELECTRA, GPT-2, T5, BART, Marian ...).

    OUT works with predict, evaluate, view, export and, as model.init=OUT, with train.
    """
    from jumok.models.weights import named_weights
    from jumok.pretrained.hub import resolve
    from jumok.tasks.runs.import_checkpoint import import_checkpoint

    found = import_checkpoint(resolve(checkpoint, revision), out)
    parameters = sum(p.numel() for p in named_weights(found.model).values())
    print_notice(f"{out}: {found.origin.architecture}, {parameters:,} parameters")
    if found.tokenizers is None:
        print_notice("the checkpoint has no tokenizer files: the model accepts token ids only")
