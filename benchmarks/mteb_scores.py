"""Scores of MTEB on the two Korean sets of sentence pairs at hand, without a network.

    pip install mteb
    python benchmarks/mteb_scores.py --data FOLDER [--models ko-small-vectors ko-static]

The main score of both tasks is Spearman's correlation of the cosines, as in MTEB's results. The
files of FOLDER (docs/data.md) take the place of those that mteb downloads.
"""

import argparse
import json
import lzma
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

import mteb
import numpy as np
from datasets import Dataset
from mteb.models.abs_encoder import AbsEncoder
from numpy.typing import NDArray
from turns import heading

from jumok.engine import load

RESULTS = Path(__file__).parent / "results" / "mteb.txt"


class JumokEncoder(AbsEncoder):  # type: ignore[misc]  # mteb is not installed with the project
    """A model of jumok, for `mteb.evaluate`."""

    def __init__(self, name: str) -> None:
        self.model = load(name, "int8")
        self.mteb_model_meta = mteb.models.ModelMeta.create_empty({"name": f"jumok/{name}"})

    def encode(self, inputs: Iterable[dict[str, list[str]]], **_: object) -> NDArray[np.float32]:
        """The vectors (n, D) of batches of texts."""
        return np.concatenate([self.model.encode(batch["text"]) for batch in inputs])


def tasks(data: Path) -> list[mteb.AbsTask]:
    """KorSTS (test) and KLUE-STS (validation) with the pairs of the files."""
    korsts, klue = mteb.get_task("KorSTS"), mteb.get_task("KLUE-STS")
    lines = (data / "korsts" / "sts-test.tsv").read_text(encoding="utf-8").splitlines()[1:]
    korsts.dataset = {"test": _pairs([line.split("\t")[4:7] for line in lines])}
    with lzma.open(data / "klue" / "klue-sts-v1.1_dev.json.xz", "rt", encoding="utf-8") as file:
        rows = json.load(file)
    found = [(row["labels"]["label"], row["sentence1"], row["sentence2"]) for row in rows]
    klue.dataset = {"validation": _pairs(found)}
    for task in (korsts, klue):
        task.data_loaded = True
    return [korsts, klue]


def _pairs(rows: Iterable[Sequence[str]]) -> Dataset:
    scores, first, second = zip(*rows, strict=True)
    numbers = [float(score) for score in scores]
    return Dataset.from_dict({"score": numbers, "sentence1": first, "sentence2": second})


def main() -> None:
    """Print and keep the table."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("--data", type=Path, required=True)
    words.add_argument("--models", nargs="+", default=["ko-small-vectors", "ko-static"])
    given = words.parse_args()
    command = "python benchmarks/mteb_scores.py --data FOLDER"
    lines = [heading(command, "numpy"), f"mteb {version('mteb')}, int8", ""]
    lines.append(f"{'cosine_spearman':<20}{'KorSTS':>10}{'KLUE-STS':>10}")
    for name in given.models:
        found = mteb.evaluate(JumokEncoder(name), tasks(given.data), cache=None)
        scores = "".join(f"{100 * each.get_score():>10.2f}" for each in found.task_results)
        lines.append(f"{name:<20}{scores}")
    text = "\n".join([*lines, ""])
    print(text)
    RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
