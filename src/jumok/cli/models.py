"""jumok models: list the models that ship with jumok."""

from pathlib import Path
from typing import Annotated

import typer

from jumok.terminal import print_json, print_line

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def models(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
) -> None:
    """List the models that ship with jumok: their names work wherever a RUN is expected."""
    from jumok.shipped import shipped_folders

    for folder in shipped_folders().values():
        row = _describe(folder)
        if as_json:
            print_json(row)
            continue
        name = row["name"]
        print_line(f"{name:<15} {row['about']}")
        if row["weights"]:
            print_line(f"{'':<15} {row['weights']:,} weights, {int(row['bytes']) / 1e6:,.1f} MB")
            print_line(f"{'':<15} jumok train RECIPE model.init={name}; card: {row['card']}")
        else:
            print_line(f"{'':<15} vocabulary only: train the weights with jumok train {name}")


def _describe(folder: Path) -> dict[str, str | int]:
    """What a folder of the package contains; `weights` is 0 without weights."""
    import math

    from jumok.safetensors_io import read_header
    from jumok.shipped import CARD, WEIGHTS

    path = folder / WEIGHTS
    header = read_header(path) if path.is_file() else {}
    card = folder / CARD
    lines = card.read_text(encoding="utf-8").splitlines() if card.is_file() else []
    return {
        "name": folder.name,
        "about": next((line for line in lines if line and not line.startswith("#")), ""),
        "weights": sum(math.prod(entry.shape) for entry in header.values()),
        "bytes": path.stat().st_size if path.is_file() else 0,
        "card": str(card),
    }
