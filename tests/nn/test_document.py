"""docs/nn.md: every public part is in its map, and its example runs."""

import re
from pathlib import Path

import jumok.nn

PAGE = Path(__file__).parents[2] / "docs" / "nn.md"

# Helpers of the parts in the map.
NOT_IN_THE_MAP = {"NO_CACHE", "HookPoint", "RopeConfig", "positions_from_mask", "FusedAttention"}


def test_the_map_has_every_public_part() -> None:
    text = PAGE.read_text(encoding="utf-8")
    missing = {name for name in jumok.nn.__all__ if not re.search(rf"\b{name}\b", text)}
    assert missing <= NOT_IN_THE_MAP


def test_files_of_the_map_define_its_classes() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if "](../src" in line]
    for row in rows:
        _, _, names, files, _ = row.split("|")[:5]
        sources = [
            (PAGE.parent / path).read_text(encoding="utf-8")
            for path in re.findall(r"\]\((\.\./[^)]+)\)", files)
        ]
        for name in re.findall(r"`(?:jumok\.)?(\w+)`", names):
            assert any(re.search(rf"^(class|def) {name}\b|^{name}\b", s, re.M) for s in sources), (
                name
            )


def test_the_examples_run() -> None:
    first, second = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    scope: dict[str, object] = {}
    exec(first, scope)
    maps = scope["maps"]
    assert tuple(maps[""][0].shape) == (2, 4, 5, 5)  # type: ignore[index]
    exec(second, scope)
