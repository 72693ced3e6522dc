"""The effects of heads as files: a table (.tsv), everything (.json), or the figure."""

import json
from pathlib import Path

from jumok.atomic_io import write_atomically
from jumok.errors import TraceError
from jumok.interpret.interventions import Effects

FIGURES = (".png", ".svg", ".pdf")


def write_effects(effects: Effects, path: Path) -> None:
    """Write the effects in the format of the file's ending. Raises InputError for another one."""
    ending = path.suffix.lower()
    if ending not in (".tsv", ".json", *FIGURES):
        raise TraceError(
            "page.unknown_file_suffix",
            "the file must end in .tsv, .json, {figures} or {figures_2}, got {path!r}",
            figures=", ".join(FIGURES[:-1]),
            figures_2=FIGURES[-1],
            path=path.name,
        )
    if ending in FIGURES:
        from jumok.fonts import save_figure
        from jumok.viewer.figures.effect_map import effect_map

        save_figure(effect_map(effects), path)
        return
    text = effects_tsv(effects) if ending == ".tsv" else _json(effects)
    write_atomically(path, text.encode("utf-8", "replace"))


def effects_tsv(effects: Effects) -> str:
    """A header line, and a line per head with its value and change, in the order of the model."""
    rows = effects.rows()
    lines = ["\t".join(rows[0]), *("\t".join(map(str, row.values())) for row in rows)]
    return "\n".join(lines) + "\n"


def _json(effects: Effects) -> str:
    return json.dumps(effects.to_table(), ensure_ascii=False, allow_nan=False) + "\n"
