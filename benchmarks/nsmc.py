"""NSMC by a shipped recipe, three seeds: test accuracy, time and memory of the whole command.

    python benchmarks/nsmc.py --data FOLDER_WITH_NSMC --out RUNS [--seeds 0 1 2] [--pretrained RUN]

With RUN, a finished run of `mlm-ko`, the recipe is `nsmc-pretrained` and begins from it; what RUN
cost is printed too. Finished runs are read, not trained again.
"""

import argparse
import platform
import statistics
from datetime import date
from pathlib import Path
from typing import Any

from trained_runs import results_of

from jumok.tasks.runs.run import Run

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    """Train what is missing, then print and keep the table."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("--data", type=Path, required=True)
    words.add_argument("--out", type=Path, required=True)
    words.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    words.add_argument("--pretrained", type=Path, help="a finished run of mlm-ko")
    given = words.parse_args()
    start: Path | None = given.pretrained
    recipe = ["nsmc"] if start is None else ["nsmc-pretrained", f"model.init={start.resolve()}"]
    results = [
        results_of(given.out / f"{recipe[0]}-{seed}", [*recipe, f"seed={seed}"], given.data)
        for seed in given.seeds
    ]
    text = "\n".join([*table(recipe[0], results), *pretraining(start)])
    print(text)
    (RESULTS / f"{recipe[0].replace('-', '_')}.txt").write_text(text + "\n", encoding="utf-8")


def pretraining(run: Path | None) -> list[str]:
    """What the run cost that the others began from, and how well it guesses."""
    if run is None:
        return []
    r = Run.open(run).results()
    return [
        "",
        f"all began from one {r['name']}, seed {r['seed']}: {r['wall_seconds'] / 60:.1f} min the "
        f"whole command, {r['peak_memory_bytes'] / 2**30:.2f} GiB, {r['parameters']:,} weights; "
        f"of unseen texts' masked pieces {100 * r['accuracy']:.2f} % guessed, perplexity "
        f"{r['perplexity']:.2f}",
    ]


def table(recipe: str, results: list[dict[str, Any]]) -> list[str]:
    """A line a seed, the mean and the spread."""
    versions = results[0]["versions"]
    lines = [
        f"JUMOK_DATA=... jumok train {recipe} seed=0|1|2 --out runs/{recipe}-0|1|2",
        f"{date.today()}, "
        + ", ".join(f"{name} {value}" for name, value in versions.items())
        + f", {platform.system()}",
        "",
        "seed  test accuracy  macro F1  dev accuracy  at step  whole command  training  memory",
    ]
    for r in results:
        lines.append(
            f"{r['seed']:>4}  {r['accuracy']:13.4f}  {r['macro_f1']:8.4f}  "
            f"{r['dev']['score']:12.4f}  {r['dev']['step']:7}  {r['wall_seconds'] / 60:9.1f} min  "
            f"{r['training_seconds'] / 60:4.1f} min  {r['peak_memory_bytes'] / 2**30:3.2f} GiB"
        )
    test = [r["accuracy"] for r in results]
    spread = f" ± {statistics.stdev(test):.4f} (standard deviation)" if len(test) > 1 else ""
    return [
        *lines,
        "",
        f"test accuracy, mean of {len(test)} seeds: {statistics.mean(test):.4f}{spread}; "
        f"lowest {min(test):.4f}, highest {max(test):.4f}",
        f"{results[0]['n']:,} test reviews, scored once a run; the epoch was chosen on the "
        "development split (the last 10,000 training rows)",
    ]


if __name__ == "__main__":
    main()
