"""Exact search over a mapped matrix of a million vectors, next to sentence-transformers.

    python benchmarks/vector_search.py [--rows 1000000] [--widths 256 384]

Random unit vectors (256: the width of `ko-small`, 384: of multilingual-e5-small) in a file that is
in the page cache; the ten nearest rows of one query at a time. `VectorIndex.search` and
`sentence_transformers.util.semantic_search` take turns on the same matrix, which the latter reads
as a tensor.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch
from turns import heading

from jumok.tasks.pipeline.text_vectors import Vectors
from jumok.tasks.pipeline.vector_index import VectorIndex

RESULTS = Path(__file__).parent / "results" / "vector_search.txt"
QUERIES = 50
CHUNK = 50_000  # rows generated at once
TOP = 10


def main() -> None:
    """Print and keep the table."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--rows", type=int, default=1_000_000)
    arguments.add_argument("--widths", type=int, nargs="+", default=[256, 384])
    given = arguments.parse_args()
    widths = " ".join(map(str, given.widths))
    command = f"python benchmarks/vector_search.py --rows {given.rows} --widths {widths}"
    lines = [
        heading(command, "numpy", "sentence-transformers"),
        "",
        f"{f'{given.rows:,} rows, top {TOP}, one query at a time':<48}"
        f"{'median':>10}{'slowest':>10}  ms of {QUERIES} queries",
    ]
    for width in given.widths:
        with tempfile.TemporaryDirectory() as folder:
            lines += _measure(Path(folder) / "vectors.f32", given.rows, width)
    text = "\n".join([*lines, ""])
    print(text)
    RESULTS.write_text(text, encoding="utf-8")


def _measure(path: Path, rows: int, width: int) -> list[str]:
    """The lines of one width; both systems must find the same rows."""
    from sentence_transformers.util import dot_score, semantic_search

    rng = np.random.default_rng(0)
    with path.open("wb") as out:
        for first in range(0, rows, CHUNK):
            out.write(_unit(rng, min(CHUNK, rows - first), width).tobytes())
    vectors = np.memmap(path, dtype="<f4", mode="r+", shape=(rows, width))
    index = VectorIndex([f"{i}" for i in range(rows)], vectors)
    tensor = torch.from_numpy(vectors)
    queries = _unit(rng, QUERIES, width)
    systems: dict[str, Callable[[Vectors], list[int]]] = {
        "jumok": lambda query: [match.line - 1 for match in index.search(query, TOP)],
        "sentence-transformers": lambda query: [
            int(hit["corpus_id"])
            for hit in semantic_search(
                torch.from_numpy(query),
                tensor,
                top_k=TOP,
                corpus_chunk_size=rows,
                score_function=dot_score,  # the vectors are normalized
            )[0]
        ],
    }
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    for number, query in enumerate([queries[0], *queries]):  # the first one warms up
        found = []
        for name, search in systems.items():
            begin = time.perf_counter()
            found.append(search(query))
            if number:
                seconds[name].append(time.perf_counter() - begin)
        assert sorted(found[0]) == sorted(found[1])
    return [
        f"{f'{name}, width {width}':<48}{1e3 * median(each):10.1f}{1e3 * max(each):10.1f}"
        for name, each in seconds.items()
    ]


def _unit(rng: np.random.Generator, rows: int, width: int) -> Vectors:
    """Random unit vectors (rows, width)."""
    vectors: Vectors = rng.standard_normal((rows, width), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors


if __name__ == "__main__":
    main()
