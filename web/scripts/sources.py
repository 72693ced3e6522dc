"""Writes the library's own lines of each step into the page: `python web/scripts/sources.py`."""

import json
from pathlib import Path

from jumok.viewer.lesson import sources

PLACE = Path(__file__).parents[1] / "src" / "views" / "calculation" / "sources.json"


def text() -> str:
    """What the file should hold."""
    return json.dumps(sources(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PLACE.write_text(text(), encoding="utf-8")
