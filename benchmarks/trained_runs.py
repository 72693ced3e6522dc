"""Runs of a benchmark: trained if missing, resumed if interrupted."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jumok.tasks.runs.run import Run


def results_of(folder: Path, words: Sequence[str], data: Path | None = None) -> dict[str, Any]:
    """What `results.json` of the run in `folder` says, trained first with these words if need be.

    `data` is a folder of corpora; without one they are looked for where they always are.
    """
    if not (folder / "results.json").exists():
        begun = (folder / "recipe.toml").exists()
        what = ["--resume", str(folder)] if begun else [*words, "--out", str(folder)]
        named = {} if data is None else {"JUMOK_DATA": str(data)}
        command = [sys.executable, "-m", "jumok", "train", *what]
        subprocess.run(command, check=True, env=os.environ | named)
    return Run.open(folder).results()
