"""jumok import: convert a Hugging Face checkpoint to jumok's format."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jumok.terminal import print_notice

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
            help="Checkpoint of a LoRA adapter. [default: the one that the adapter names]",
        ),
    ] = None,
) -> None:
    """Import a Hugging Face checkpoint (BERT, RoBERTa, ELECTRA, GPT-2, T5, BART, Marian ...).

    OUT works with predict, evaluate, view, export and, as model.init=OUT, with train.
    """
    from jumok.errors import InputError
    from jumok.formats.gguf_reader import is_gguf
    from jumok.formats.peft_adapter import is_adapter, read_adapter
    from jumok.pretrained.hub import resolve
    from jumok.tasks.runs.import_checkpoint import import_adapter, import_checkpoint, import_gguf

    if is_gguf(Path(checkpoint)):
        _report(import_gguf(Path(checkpoint), out), out)
        return
    folder = resolve(checkpoint, revision)
    if is_adapter(folder):
        found = import_adapter(folder, resolve(base or read_adapter(folder).base), out)
    elif base is not None:
        raise InputError(f"--base is for LoRA adapters, got {checkpoint}, a checkpoint; remove it")
    else:
        found = import_checkpoint(folder, out)
    _report(found, out)


def _report(found: "ImportedCheckpoint", out: Path) -> None:
    """Print what was imported."""
    from jumok.models.weights import named_weights

    parameters = sum(p.numel() for p in named_weights(found.model).values())
    print_notice(f"{out}: {found.origin.architecture}, {parameters:,} parameters")
    if found.tokenizers is None:
        print_notice("the checkpoint has no tokenizer files: the model accepts token ids only")
