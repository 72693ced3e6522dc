"""jumok models: list the models that ship with jumok."""

from pathlib import Path
from typing import Annotated

import typer

from jumok.cli.options import json_option
from jumok.language import language, translate
from jumok.terminal import print_json, print_line

_USES = {  # of the task that a model was trained for
    "masked_language_modeling": "masked language model",
    "similarity": "sentence vectors for embed and search",
    "sequence_to_sequence": "translation",
}

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def models(as_json: Annotated[bool, json_option("Print JSON lines.")] = False) -> None:
    """List the models that ship with jumok: their names work wherever a RUN is expected."""
    from jumok.shipped import shipped_folders

    folders = shipped_folders()
    width = max(map(len, folders)) + 2
    for folder in folders.values():
        row = _describe(folder)
        if as_json:
            print_json(row)
            continue
        name = str(row["name"])
        print_line(f"{name:<{width}}{translate(_USES.get(str(row['task']), ''))}".rstrip())
        if row["weights"]:
            size = translate("{:,} weights, {:,.1f} MB", row["weights"], int(row["bytes"]) / 1e6)
            use = translate("jumok train RECIPE model.init={}; card: {}", name, row["card"])
            rest = [size, use]
        else:
            rest = [translate("vocabulary only: train the weights with jumok train {}", name)]
        for line in [row["about"], *rest]:
            print_line(f"{'':<{width}}{line}")


def _describe(folder: Path) -> dict[str, str | int]:
    """What a folder of the package contains; `weights` is 0 without weights."""
    import math
    import re
    import tomllib

    from jumok.models.int8_weights import SUFFIX  # of scales, which are no weights
    from jumok.safetensors_io import read_header
    from jumok.shipped import CARD, WEIGHTS

    path = folder / WEIGHTS
    header = read_header(path) if path.is_file() else {}
    card = folder / CARD
    lines = card.read_text(encoding="utf-8").splitlines() if card.is_file() else []
    prose = [line for line in lines if line and not line.startswith("#")]
    korean = [line for line in prose if any("가" <= c <= "힣" for c in line)]
    about = (korean if language() == "ko" else prose)[:1]
    recipe = folder / "recipe.toml"
    table = tomllib.loads(recipe.read_text(encoding="utf-8")) if recipe.is_file() else {}
    return {
        "name": folder.name,
        "task": table.get("task", ""),
        "about": re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", "".join(about)),  # links of Markdown
        "weights": sum(math.prod(x.shape) for k, x in header.items() if not k.endswith(SUFFIX)),
        "bytes": path.stat().st_size if path.is_file() else 0,
        "card": str(card),
    }
