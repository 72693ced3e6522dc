"""The numbers of the engine's encoders and those of PyTorch, for many texts and each kernel.

    python benchmarks/encoder_parity.py --data FILE [FILE ...] [--texts 10000] [--kernels avx2 ...]
                                        [--save]

The models are `ko-small-vectors` (cosines of pairs) and untrained ones of the other three tasks: 2
layers, width 64, a linear head. The texts are those of generation_parity.py: one in ten is
decomposed, with emoji, several in one, on several lines or blank; a pair is a text and the next
one. A kernel that is not compiled is compiled first. `largest` is the largest difference of a
probability or score in float32, `decisions` counts the rows with the same labels.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from generation_parity import texts_of
from numpy.typing import NDArray
from trust.fuzz_corpus import write_run
from turns import command_line, heading

import jumok
from jumok.engine import load
from jumok.native.instruction_sets import usable
from jumok.tasks.pipeline.outputs import MultiLabelPrediction, Output, Prediction

RESULTS = Path(__file__).parent / "results" / "encoder_parity.txt"
LABELS = 'data.labels=["a","b","c"]'
TASKS = {
    "classification": ("metric=accuracy", LABELS),
    "multi_label_classification": ("metric=micro_f1", LABELS),
    "regression": ("metric=pearson",),
}
WIDER = (
    "model.max_length=128",
    "model.d_model=64",
    "model.n_heads=4",
    "model.d_ff=128",
    "model.n_layers=2",
    "model.kind=encoder",
)
CHUNK = 1_000  # texts


def numbers(outputs: Sequence[Output]) -> NDArray[np.float32]:
    """The probabilities or the score of each output, (n, k)."""
    rows = []
    for each in outputs:
        if isinstance(each, Prediction | MultiLabelPrediction):
            rows.append(list(each.probabilities.values()))
        else:
            rows.append([each.score])  # type: ignore[attr-defined]
    return np.array(rows, np.float32)


def answers(model: "jumok.Pipeline | object", lines: Sequence[str]) -> NDArray[np.float32]:
    """The numbers of a model for all texts."""
    parts = [lines[i : i + CHUNK] for i in range(0, len(lines), CHUNK)]
    return np.concatenate([numbers(model.predict(part)) for part in parts])  # type: ignore[union-attr]


def of_kernel(kernel: str, folder: str, lines: Path) -> NDArray[np.float32]:
    """The numbers of the engine with one kernel, computed by another process."""
    found = lines.with_name("found.npy")
    words = [sys.executable, __file__, "--answer", folder, str(lines), str(found)]
    subprocess.run(words, env=os.environ | {"JUMOK_CPU": kernel}, check=True)
    made: NDArray[np.float32] = np.load(found)
    return made


def decisions(found: NDArray[np.float32], task: str) -> NDArray[np.int64]:
    """What decides the labels of each row; nothing where the output is a number."""
    if task == "multi_label_classification":
        return (found >= 0.5).astype(np.int64)
    best: NDArray[np.int64] = found.argmax(1)
    return best


def main() -> None:
    """Compare all models and kernels, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--answer", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--data", nargs="+", type=Path)
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--kernels", nargs="+", default=[each.name for each in usable()])
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    if given.answer:
        folder, lines, found = given.answer
        texts = json.loads(Path(lines).read_text(encoding="utf-8"))
        np.save(found, answers(load(folder), texts))
        return
    texts = [" ".join(each.split("\t")) for each in texts_of(given.data, given.texts)]
    pairs = [f"{a}\t{b}" for a, b in zip(texts, [*texts[1:], texts[0]], strict=True)]
    rows = [f"{'task':<28}{'kernel':<14}{'texts':>7}{'largest':>10}{'decisions':>11}"]
    with tempfile.TemporaryDirectory() as scratch:
        models = {
            task: str(write_run(Path(scratch) / task, task, words=(*WIDER, *words)))
            for task, words in TASKS.items()
        }
        for task, folder in (*models.items(), ("similarity", "ko-small-vectors")):
            lines = Path(scratch) / "lines.json"
            chosen = pairs if task == "similarity" else texts
            lines.write_text(json.dumps(chosen), encoding="utf-8")
            expected = answers(jumok.load(folder, device="cpu"), chosen)
            for kernel in given.kernels:
                found = of_kernel(kernel, folder, lines)
                same = (decisions(found, task) == decisions(expected, task)).reshape(len(found), -1)
                rows.append(
                    f"{task:<28}{kernel:<14}{len(found):>7}{np.abs(found - expected).max():>10.1e}"
                    f"{same.all(1).sum():>11}"
                )
                print(rows[-1], file=sys.stderr, flush=True)
    text = f"{heading(command_line())}\n\n" + "\n".join(rows) + "\n"
    print(text)
    if given.save:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
