"""jumok models: list the models that ship with jumok."""

from pathlib import Path
from typing import Annotated

import typer

from jumok.language import language, translate
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
            size = translate("{:,} weights, {:,.1f} MB", row["weights"], int(row["bytes"]) / 1e6)
            use = translate("jumok train RECIPE model.init={}; card: {}", name, row["card"])
            print_line(f"{'':<15} {size}")
            print_line(f"{'':<15} {use}")
        else:
            train = translate("vocabulary only: train the weights with jumok train {}", name)
            print_line(f"{'':<15} {train}")


def _describe(folder: Path) -> dict[str, str | int]:
    """What a folder of the package contains; `weights` is 0 without weights."""
    import math

    from jumok.safetensors_io import read_header
    from jumok.shipped import CARD, WEIGHTS

    path = folder / WEIGHTS
    header = read_header(path) if path.is_file() else {}
    card = folder / CARD
    lines = card.read_text(encoding="utf-8").splitlines() if card.is_file() else []
    prose = [line for line in lines if line and not line.startswith("#")]
    korean = [line for line in prose if any("가" <= c <= "힣" for c in line)]
    about = (korean if language() == "ko" else prose)[:1]
    return {
        "name": folder.name,
        "about": "".join(about),
        "weights": sum(math.prod(entry.shape) for entry in header.values()),
        "bytes": path.stat().st_size if path.is_file() else 0,
        "card": str(card),
    }
