"""jumok import: somebody else's checkpoint, brought into our format."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command("import")
def import_(
    checkpoint: Annotated[
        str,
        typer.Argument(
            metavar="CHECKPOINT",
            help="A folder in the format of Hugging Face, or OWNER/NAME on its hub.",
        ),
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The new folder.")],
    revision: Annotated[
        str | None, typer.Option(metavar="HASH", help="Of a hub's repository: which commit.")
    ] = None,
) -> None:
    """Bring a checkpoint of BERT, RoBERTa, ELECTRA, GPT-2, T5, BART, Marian ... into a folder.

    The folder can be asked, evaluated, watched, trained further (model.init=OUT) and exported.
    """
    from jumok.models.weights import weights_of
    from jumok.pretrained.hub import resolve
    from jumok.tasks.runs.import_checkpoint import import_checkpoint

    found = import_checkpoint(resolve(checkpoint, revision), out)
    parameters = sum(p.numel() for p in weights_of(found.model).values())
    typer.echo(f"{out}: a {found.origin.architecture} of {parameters:,} weights", err=True)
    if found.vocabularies is None:
        typer.echo("its folder had no tokeniser: it answers to ids only", err=True)
