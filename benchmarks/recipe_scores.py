"""A recipe with several seeds: test scores, time and memory of the whole command.

    python benchmarks/recipe_scores.py RECIPE --out RUNS [--seeds 0 1 2] [--data DATA] [--init RUN]

For example `numbers`, `nsmc`, or `nsmc-pretrained --init RUN` with a finished run of `mlm-ko`; its
cost is printed too. Finished runs are read, not trained again.
"""

import argparse
import statistics
from datetime import date
from pathlib import Path
from typing import Any

from trained_runs import results_of
from turns import processor

from jumok.tasks.runs.run import Run

RESULTS = Path(__file__).parent / "results"
METRICS = (
    "accuracy",
    "macro_f1",
    "exact_match",
    "pearson",
    "spearman",
    "entity_f1",
    "character_f1",
)


def main() -> None:
    """Train what is missing, then print the table and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("recipe")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--init", type=Path, help="a finished run for model.init")
    options = parser.parse_args()
    overrides = [f"model.init={options.init.resolve()}"] if options.init else []
    results = [
        results_of(
            options.out / f"{options.recipe}-{seed}",
            [options.recipe, *overrides, f"seed={seed}"],
            options.data,
        )
        for seed in options.seeds
    ]
    text = "\n".join([*table(options.recipe, results), *pretraining(options.init)])
    print(text)
    name = options.recipe.replace("-", "_")
    (RESULTS / f"{name}.txt").write_text(text + "\n", encoding="utf-8")


def table(recipe: str, results: list[dict[str, Any]]) -> list[str]:
    """One line per seed and test set, then mean and standard deviation of the first test set.

    The metric of the mean is that by which the checkpoints were chosen.
    """
    versions = ", ".join(f"{name} {value}" for name, value in results[0]["versions"].items())
    metrics = [name for name in METRICS if name in results[0]]
    seeds = "|".join(str(result["seed"]) for result in results)
    lines = [
        f"jumok train {recipe} seed={seeds} --out runs/{recipe}-{seeds}",
        f"{date.today()}, {versions}, {processor()}",
        "",
        f"seed  {'test set':<16} {'rows':>6}  {'  '.join(f'{name:>12}' for name in metrics)}  "
        "dev score     step  whole command  training     memory",
    ]
    for result in results:
        for scores in (result, *result["others"]):
            lines.append(
                f"{result['seed']:>4}  {scores['split']:<16} {scores['n']:>6}  "
                f"{'  '.join(f'{scores[name]:12.4f}' for name in metrics)}  "
                f"{result['dev']['score']:9.4f}  {result['dev']['step']:7}  "
                f"{result['wall_seconds'] / 60:9.1f} min  "
                f"{result['training_seconds'] / 60:4.1f} min  "
                f"{result['peak_memory_bytes'] / 2**30:5.2f} GiB"
            )
    metric = results[0]["dev"]["metric"]
    first = [result[metric] for result in results]
    spread = f" ± {statistics.stdev(first):.4f} (standard deviation)" if len(first) > 1 else ""
    return [
        *lines,
        "",
        f"{metric} of {results[0]['split']}, mean of {len(first)} seeds: "
        f"{statistics.mean(first):.4f}{spread}; the checkpoint is that with the best dev score",
    ]


def pretraining(run: Path | None) -> list[str]:
    """The cost of the run in `model.init`, and the quality of its predictions."""
    if run is None:
        return []
    results = Run.open(run).results()
    return [
        f"all initialized from one {results['name']}, seed {results['seed']}: "
        f"{results['wall_seconds'] / 60:.1f} min for the whole command, "
        f"{results['peak_memory_bytes'] / 2**30:.2f} GiB, {results['parameters']:,} parameters; "
        f"accuracy of masked tokens {100 * results['accuracy']:.2f} %, perplexity "
        f"{results['perplexity']:.2f}",
    ]


if __name__ == "__main__":
    main()
