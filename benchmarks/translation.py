"""Scores of a finished translation run on every test set of its corpus.

    JUMOK_DATA=... python benchmarks/translation.py RUN [--decoding KEY=VALUE ...] [--name NAME]

Prints BLEU over 13a tokens, chrF, and BLEU as in papers for the language: over morphemes
(ko-mecab), or tokenized by Moses and lower-cased (Multi30k). All choices were made on
the validation split.
"""

import argparse
import time
from pathlib import Path
from typing import Any

from turns import heading

import jumok
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.evaluate import evaluate, evaluation_tables
from jumok.tasks.runs.run import Run

RESULTS = Path(__file__).parent / "results"
METRICS = ("bleu", "chrf", "bleu_tokenized_lower", "bleu_ko_mecab", "exact_match")


def main() -> None:
    """Score every test set, print the table and keep it."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("run", type=Path)
    words.add_argument("--decoding", nargs="+", default=[], metavar="KEY=VALUE")
    words.add_argument("--name", help="of the results file; the recipe's name if left out")
    given = words.parse_args()
    loaded = jumok.load(given.run)
    if given.decoding:
        loaded = loaded.with_decoding(given.decoding)
    rows = [scored(loaded, name) for name in evaluation_tables(loaded.recipe)]
    name = given.name or f"translation_{loaded.recipe.name}"
    command = f"python benchmarks/translation.py RUN {' '.join(given.decoding)}".strip()
    text = "\n".join([heading(command), "", *facts(Run.open(given.run)), "", *table(rows)])
    print(text)
    (RESULTS / f"{name}.txt").write_text(text + "\n", encoding="utf-8")


def scored(loaded: Pipeline, split: str) -> dict[str, Any]:
    """The scores of one test set, and the seconds it took to write and score."""
    begin = time.monotonic()
    (rows,) = evaluation_tables(loaded.recipe, split).values()
    scores = evaluate(loaded, rows, split).scores
    return scores | {"seconds": time.monotonic() - begin}


def facts(run: Run) -> list[str]:
    """How the run came about: size, time, memory, and what it was chosen by."""
    results = run.results()
    size = f"{results['name']}, seed {results['seed']}: {results['parameters']:,} weights"
    seconds, most = results["wall_seconds"], results["peak_memory_bytes"] / 2**30
    if "averaged_steps" in results:
        steps = ", ".join(f"{step:,}" for step in results["averaged_steps"])
        dev = "  ".join(f"{name} {results[name]:.2f}" for name in METRICS if name in results)
        return [
            f"{size}, the mean of steps {steps}",
            f"averaged and scored on dev in {seconds / 60:.1f} min, at most {most:.2f} GiB",
            f"dev: {dev} (as the recipe's [decoding] says)",
        ]
    dev = results["dev"]
    return [
        f"{size}, {results['steps']:,} steps",
        f"training {results['training_seconds'] / 60:.1f} min, whole command "
        f"{seconds / 60:.1f} min, at most {most:.2f} GiB",
        f"chosen by dev {dev['metric']} {dev['score']:.2f} (greedy) at step {dev['step']:,}",
    ]


def table(rows: list[dict[str, Any]]) -> list[str]:
    """A line a test set, then the signatures and the settings in force."""
    first = rows[0]
    metrics = [name for name in METRICS if name in first]
    lines = [f"{'test set':<18}{'rows':>6}  " + "  ".join(metrics) + "  seconds"]
    for row in rows:
        cells = "  ".join(f"{row[name]:{len(name)}.2f}" for name in metrics)
        lines.append(f"{row['split']:<18}{row['n']:>6}  {cells}  {row['seconds']:7.1f}")
    signatures = [f"{key}: {value}" for key, value in first.items() if key.endswith("signature")]
    return [*lines, "", f"decoding: {first['decoding']}", *signatures]


if __name__ == "__main__":
    main()
