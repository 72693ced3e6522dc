"""Tables of a large file: parts of it are not copied, and have the rows that copies would have."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jumok.data import table
from jumok.data.config import DataConfig
from jumok.data.files import tables
from jumok.data.load import load_splits
from jumok.data.table import Table

N = 9_001  # more than two blocks

PARTS: dict[str, Callable[[Table], Any]] = {
    "all": lambda train: list(train.column("text")),
    "labels": lambda train: list(train.column("label")),
    "from a negative number": lambda train: train.column("text")[-1],
    "one": lambda train: train.column("text")[4_321],
    "some": lambda train: train.column("text")[4_000:4_200],
    "none": lambda train: train.column("text")[5:5],
    "every seventh": lambda train: train.column("text")[::7],
    "slice": lambda train: list(train.slice(10, 5_000).column("text")),
    "slice of a slice": lambda train: list(train.slice(10).slice(3, 9).column("label")),
    "kept": lambda train: list(train.keep(np.arange(len(train)) % 3 == 0).column("text")),
    "not empty": lambda train: list(train.without_empty("text").column("text")),
    "without": lambda train: list(train.without("text", ["글  12번 "]).column("text")),
    "joined": lambda train: list(Table.concat([train, train.slice(0, 2)]).column("text")),
    "selected": lambda train: list(train.select(["label"]).column("label")),
    "length": len,
    "columns": lambda train: repr(train.column("text")),
}


@pytest.fixture(scope="module")
def trains(tmp_path_factory: pytest.TempPathFactory) -> tuple[Table, Table]:
    """The training split of a file in memory, and of the same file in the cache."""
    folder = tmp_path_factory.mktemp("mapped")
    path = folder / "a.tsv"
    rows = [f"글 {n}번\t{'가나다'[n % 3]}\n" for n in range(N)]
    path.write_text("text\tlabel\n" + "".join(rows), encoding="utf-8")
    config = DataConfig(train=str(path), dev_rows=900)
    in_memory = load_splits(config).train
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setattr(tables, "MIN_CACHED_BYTES", 0)
        patch.setattr(table, "_RELEASED_ROWS", 4_096)
        return in_memory, load_splits(config).train


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_a_mapped_file(
    name: str, trains: tuple[Table, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "_RELEASED_ROWS", 4_096)
    in_memory, mapped = trains
    assert (in_memory.mapping, in_memory.rows) == (None, None)
    assert mapped.mapping is not None
    assert mapped.arrow.num_rows == N  # all rows of the file
    assert PARTS[name](mapped) == PARTS[name](in_memory)


def test_pages_leave_the_memory_after_a_pass(trains: tuple[Table, Table]) -> None:
    smaps = Path("/proc/self/smaps")
    if not smaps.exists():
        pytest.skip("only Linux counts the pages of a mapping")
    _, mapped = trains
    assert len(mapped.column("text")[:]) == len(mapped)
    assert _resident(smaps) > 0
    assert len(list(mapped.column("text"))) == len(mapped)
    assert _resident(smaps) == 0


def _resident(smaps: Path) -> int:
    """The kilobytes of mapped tables in memory."""
    found, ours = 0, False
    for line in smaps.read_text().splitlines():
        if "-" in line.split(" ")[0]:
            ours = "/jumok/tables/" in line
        elif ours and line.startswith("Rss:"):
            found += int(line.split()[1])
    return found
