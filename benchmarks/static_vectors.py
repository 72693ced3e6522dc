"""Static vectors: the two Korean STS tests of MTEB, texts a second, and the first vector.

    python benchmarks/static_vectors.py --data FOLDER [--models ko-static ko-small-vectors]

Spearman's correlation of the cosines with the scores, as MTEB prints it: the test part of KorSTS
and the dev part of KLUE-STS (its only public one) in FOLDER (docs/data.md). The texts of the speed
are lines of `korean` of at most 40 characters, in one thread; the first vector is a new process.
Both are processor time, the least of several runs in turns.
"""

import argparse
import json
import lzma
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from turns import heading

from jumok.engine import EngineModel, load
from jumok.evaluation import regression_metrics
from jumok.tasks.pipeline.predictions import cosines

RESULTS = Path(__file__).parent / "results" / "static_vectors.txt"
SPOKEN = ("korean/spoken.txt.xz", "korean/comments.txt.xz", "korean/stories.txt.xz")
SHORT, N_TEXTS, ROUNDS = 40, 20_000, 5
FIRST = "import jumok.engine, sys; jumok.engine.load(sys.argv[1]).encode('비가 와요')"

Rows = list[tuple[str, str, float]]


def main() -> None:
    """Print and keep the table."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--data", type=Path, required=True)
    arguments.add_argument("--models", nargs="+", default=["ko-static", "ko-small-vectors"])
    given = arguments.parse_args()
    lines = [
        heading("python benchmarks/static_vectors.py --data FOLDER", "numpy"),
        "",
        f"{'':<18} {'KorSTS test':>12} {'KLUE-STS':>9} {'texts/s':>9} {'first vector, s':>16}",
    ]
    texts = short_texts(given.data)
    models = {name: load(name) for name in given.models}
    speeds, firsts = in_turns(models, texts)
    for name, model in models.items():
        scores = [spearman(model, rows) for rows in (korsts(given.data), klue(given.data))]
        lines.append(
            f"{name:<18} {scores[0]:>12.4f} {scores[1]:>9.4f} {speeds[name]:>9,.0f} "
            f"{firsts[name]:>16.2f}"
        )
    mean = sum(map(len, texts)) / len(texts)
    lines += ["", f"{len(texts):,} texts of {mean:.1f} characters"]
    text = "\n".join([*lines, ""])
    print(text)
    RESULTS.write_text(text, encoding="utf-8")


def in_turns(
    models: dict[str, EngineModel], texts: list[str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Texts a second, and the seconds of a process with one vector, for each model."""
    speeds, firsts = dict.fromkeys(models, 0.0), dict.fromkeys(models, float("inf"))
    for _ in range(ROUNDS):
        for name, model in models.items():
            part = texts if name == "ko-static" else texts[:1_000]
            begin = time.process_time()
            model.encode(part)
            speeds[name] = max(speeds[name], len(part) / (time.process_time() - begin))
            process = subprocess.Popen([sys.executable, "-c", FIRST, name])
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            assert process.returncode == 0
            firsts[name] = min(firsts[name], usage.ru_utime + usage.ru_stime)
    return speeds, firsts


def spearman(model: EngineModel, rows: Rows) -> float:
    """The rank correlation of the cosines with the scores."""
    first, second, scores = zip(*rows, strict=True)
    found = cosines(model.encode(first), model.encode(second))
    return regression_metrics(scores, found.tolist()).spearman


def korsts(data: Path) -> Rows:
    """The test part of KorSTS."""
    lines = (data / "korsts" / "sts-test.tsv").read_text(encoding="utf-8").splitlines()[1:]
    cells = [line.split("\t") for line in lines]
    return [(row[5], row[6], float(row[4])) for row in cells]


def klue(data: Path) -> Rows:
    """The dev part of KLUE-STS."""
    with lzma.open(data / "klue" / "klue-sts-v1.1_dev.json.xz", "rt") as file:
        rows = json.load(file)
    return [(r["sentence1"], r["sentence2"], float(r["labels"]["real-label"])) for r in rows]


def short_texts(data: Path) -> list[str]:
    """Distinct short lines, the files in turns."""

    def lines(file: str) -> Iterator[str]:
        with lzma.open(data / file, "rt", encoding="utf-8") as stream:
            yield from (line.strip() for line in stream if 0 < len(line.strip()) <= SHORT)

    found = (text for texts in zip(*map(lines, SPOKEN), strict=False) for text in texts)
    rest = (text for file in SPOKEN for text in lines(file))
    return list(dict.fromkeys([*found, *rest]))[:N_TEXTS]


if __name__ == "__main__":
    main()
