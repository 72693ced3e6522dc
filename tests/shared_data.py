"""The shared data beside the project: tests that need it skip with a word when it is absent."""

import os
from pathlib import Path

import pytest


def shared_data(name: str = "") -> Path:
    """The path of `shared/data/NAME`; skips the calling test when it is not there.

    JUMOK_SHARED names the shared folder; without it, `shared` beside the project is taken.
    """
    beside = Path(__file__).resolve().parents[2] / "shared"
    path = Path(os.environ.get("JUMOK_SHARED", beside)) / "data" / name
    if not path.exists():
        pytest.skip(f"needs the shared data: no {path.name} in shared/data")
    return path
