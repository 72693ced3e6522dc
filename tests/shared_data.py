"""The shared data next to the project; tests that need it are skipped without it."""

import os
from pathlib import Path

import pytest


def shared_data(name: str = "") -> Path:
    """The path of `shared/data/NAME`; skips the calling test if it is missing.

    JUMOK_SHARED names the shared folder; without it, `shared` next to the project is used.
    """
    default = Path(__file__).resolve().parents[2] / "shared"
    path = Path(os.environ.get("JUMOK_SHARED", default)) / "data" / name
    if not path.exists():
        pytest.skip(f"needs the shared data: no {path.name} in shared/data")
    return path
