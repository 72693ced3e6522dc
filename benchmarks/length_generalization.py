r"""Length generalization of position encodings: digits read aloud, up to 4 in training, 8 in tests.

    python benchmarks/length_generalization.py data runs/lengths-data
    export JUMOK_EXTENSIONS=examples/own_positions.py:benchmarks/length_generalization.py
    jumok sweep runs/lengths-data/recipe.toml --seeds 6 --out runs/lengths \
        model.positions=sinusoidal,learned,rotary,alibi,none
    jumok table runs/lengths/*
    python benchmarks/length_generalization.py write runs/lengths

Kazemnejad et al. 2023, "The Impact of Positional Encoding on Length Generalization in
Transformers", train decoders of 107 million weights on lengths up to 20 and test up to 40; this one
has 27,000 weights, so that 30 trainings take minutes. The same command continues a sweep that was
interrupted. `write` makes results/length_generalization.txt and the numbers of lesson 16.
"""

import argparse
import json
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Container
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from jumok.data.numbers.number_words import digit_by_digit
from jumok.data.table import Table
from jumok.registry import register
from jumok.tasks.causal_lm import CausalLMJob, CausalLMTask, PackedBatch
from jumok.tasks.inputs.batches import LazyBatches
from jumok.tasks.pipeline.outputs import EvaluationResult
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.recipe.recipe import Recipe

RESULTS = Path(__file__).parent / "results" / "length_generalization.txt"
LESSON = Path(__file__).parents[1] / "src" / "jumok" / "course" / "data" / "lengths.json"
SHORT, LONG = 4, 8  # digits of a number at most, in training and in the test

RECIPE = """\
task = "spoken_digits"

[data]
train = "{folder}/train.jsonl"
dev = "{folder}/dev.jsonl"
test = "{folder}/test.jsonl"

[vocabulary]
kind = "char"
size = 100
character_coverage = 1.0

[model]
kind = "decoder"
n_layers = 2
d_model = 32
n_heads = 4
d_ff = 128
norm_first = true
dropout = 0.0
max_length = 24

[training]
steps = 200
batch_tokens = 512
learning_rate = 5e-3
schedule = "linear"
warmup_steps = 20
precision = "float32"
evaluate_every = 200
"""


def exact(expected: list[str], predicted: list[str], lengths: Container[int]) -> float:
    """The share of numbers with so many digits that are written without an error."""
    right = [a == b for a, b in zip(expected, predicted, strict=True) if len(a) in lengths]
    return sum(right) / max(len(right), 1)


@register("jumok.metrics", "short")
def short(expected: list[str], predicted: list[str]) -> float:
    """Numbers of as many digits as in training."""
    return exact(expected, predicted, range(1, SHORT + 1))


@register("jumok.metrics", "long")
def long(expected: list[str], predicted: list[str]) -> float:
    """Longer numbers."""
    return exact(expected, predicted, range(SHORT + 1, LONG + 1))


class AnswerJob(CausalLMJob):
    """Only the digits after "=" count in the loss."""

    def epoch(self, number: int) -> LazyBatches[PackedBatch]:
        """The batches with a loss of the answers."""
        batches, sign = super().epoch(number), self.tokenizer.encode("1=")[-1]
        numbers = list(np.arange(len(batches)).reshape(-1, 1))
        return LazyBatches(numbers, lambda number: answers(batches[number.item()], sign))


def answers(batch: PackedBatch, sign: int) -> PackedBatch:
    """The batch with a loss of the tokens after the sign alone; a row may hold several lines."""
    index = torch.arange(batch.ids.shape[1])  # (W,)
    begin = 0 if batch.positions is None else index - batch.positions  # of its line, (R, W)
    seen = torch.where(batch.ids == sign, index, -1).cummax(1).values  # (R, W)
    counts = (seen >= begin) & (True if batch.loss_mask is None else batch.loss_mask)
    return replace(batch, loss_mask=counts, n_targets=int(counts.sum()))


@register("jumok.tasks", "spoken_digits")
class SpokenDigits(CausalLMTask):
    """A language model of lines "삼공칠=307", scored by what it writes after "="."""

    def job(self, recipe: Recipe) -> type[AnswerJob]:
        """Cross-entropy of the answers."""
        return AnswerJob

    def evaluate(self, pipeline: Pipeline, table: Table, split: str) -> EvaluationResult:
        """The share of numbers written without an error, by the number of digits."""
        rows = [text.split("=") for text in table.column("text")]
        found = self.predict(pipeline, [spoken + "=" for spoken, _ in rows])
        written, outputs = [digits for _, digits in rows], [each.output for each in found]
        lengths = {n: exact(written, outputs, [n]) for n in sorted(set(map(len, written)))}
        scores = {"short": short(written, outputs), "long": long(written, outputs)}
        info = {"task": "spoken_digits", "split": split, "n": len(rows)}
        return EvaluationResult(info | scores | {"digits": {str(n): x for n, x in lengths.items()}})


def line(rng: random.Random, n: int) -> str:
    """A spoken number of n digits and its digits."""
    digits = "".join(rng.choices("0123456789", k=n))
    return f"{digit_by_digit(digits, zero='공')}={digits}"


def write_data(folder: Path, train: int = 6_000, each: int = 25) -> None:
    """Lines of 1 to 4 digits, as many of each length, and of 1 to 8 for the test."""
    rng = random.Random(0)
    lines = [line(rng, rng.randint(1, SHORT)) for _ in range(train)]
    seen = set(lines)
    tested = [line(rng, n) for n in range(1, LONG + 1) for _ in range(each)]
    splits = {
        "train": lines,
        "dev": [line(rng, rng.randint(1, SHORT)) for _ in range(300)],
        "test": [each for each in tested if each not in seen or len(each) <= 7],
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, chosen in splits.items():
        rows = [json.dumps({"text": each}, ensure_ascii=False) + "\n" for each in chosen]
        (folder / f"{name}.jsonl").write_text("".join(rows), encoding="utf-8")
    recipe = RECIPE.format(folder=folder.resolve())
    (folder / "recipe.toml").write_text(recipe, encoding="utf-8")


def curves(runs: Path) -> dict[str, list[dict[int, float]]]:
    """The share of exact numbers by positions, seed and number of digits."""
    found: dict[str, list[dict[int, float]]] = defaultdict(list)
    for path in sorted(runs.glob("*/results.json")):
        positions = path.parent.name.partition(",")[0].removeprefix("positions=")
        digits = json.loads(path.read_text(encoding="utf-8"))["digits"]
        found[positions].append({int(n): share for n, share in digits.items()})
    return dict(found)


def write(runs: Path) -> None:
    """The table of `jumok table`, the means by the number of digits, and all numbers as JSON."""
    from turns import processor

    from jumok.cli.table import plain_table
    from jumok.tasks.runs.score_table import score_table

    found = curves(runs)
    folders = sorted(path.parent for path in runs.glob("*/results.json"))
    command = (
        "jumok sweep recipe.toml model.positions=sinusoidal,learned,rotary,alibi,none --seeds 6"
    )
    lines = [command, processor(), "", *plain_table(score_table(folders)), ""]
    lines.append("exact match by the number of digits, the mean over the seeds; trained on 1 to 4")
    for positions, seeds in found.items():
        means = [sum(each[n] for each in seeds) / len(seeds) for n in seeds[0]]
        lines.append(f"{positions:12}" + " ".join(f"{mean:5.2f}" for mean in means))
    print(text := "\n".join(lines))
    RESULTS.write_text(text + "\n", encoding="utf-8")
    LESSON.write_text(json.dumps(found, separators=(",", ":")) + "\n", encoding="utf-8")


def main() -> None:
    """Write the data, or the results of a sweep."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("data", "write"))
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    commands: dict[str, Callable[[Path], None]] = {"data": write_data, "write": write}
    commands[options.what](options.folder)


if __name__ == "__main__":
    sys.modules["length_generalization"] = sys.modules[__name__]  # JUMOK_EXTENSIONS names it too
    main()
