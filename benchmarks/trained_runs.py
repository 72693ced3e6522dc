"""Runs of a benchmark: trained if missing, resumed if interrupted."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jumok.tasks.runs.run import Run


def results_of(folder: Path, arguments: Sequence[str], data: Path | None = None) -> dict[str, Any]:
    """The results of the run in `folder`; it is trained first with these arguments if necessary.

    `data` is the folder of corpora; by default JUMOK_DATA or the user cache.
    """
    if not (folder / "results.json").exists():
        started = (folder / "recipe.toml").exists()
        task = ["--resume", str(folder)] if started else [*arguments, "--out", str(folder)]
        variables = {} if data is None else {"JUMOK_DATA": str(data)}
        command = [sys.executable, "-m", "jumok", "train", *task]
        subprocess.run(command, check=True, env=os.environ | variables)
    return Run.open(folder).results()
