"""The `numbers` recipe as `make demo` trains it: exact match, and the time and memory it took.

python benchmarks/numbers_corpus.py --out RUNS [--seeds 0 1 2]

Every seed trains a run of its own. A run that is finished already is read, not trained again.
"""

import argparse
import platform
from datetime import date
from pathlib import Path
from typing import Any

from trained_runs import results_of

RESULTS = Path(__file__).parent / "results" / "numbers.txt"


def main() -> None:
    """Train with each seed and keep the table."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("--out", type=Path, required=True)
    words.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = words.parse_args()
    rows = [
        results_of(given.out / f"numbers-{seed}", ["numbers", f"seed={seed}"])
        for seed in given.seeds
    ]
    text = table(rows)
    print(text)
    RESULTS.write_text(text + "\n", encoding="utf-8")


def table(rows: list[dict[str, Any]]) -> str:
    """A line a seed."""
    versions = ", ".join(f"{name} {value}" for name, value in rows[0]["versions"].items())
    lines = [
        "jumok train numbers seed=0|1|2",
        f"{date.today()}, {versions}, {platform.system()}",
        "",
        "seed  unseen values  unseen patterns  whole command  training  memory",
    ]
    for results in rows:
        patterns = results["others"][0]
        lines.append(
            f"{results['seed']:>4}  {results['exact_match']:13.4f}  "
            f"{patterns['exact_match']:15.4f}  {results['wall_seconds']:11.0f} s  "
            f"{results['training_seconds']:6.0f} s  {results['peak_memory_bytes'] / 2**30:3.2f} GiB"
        )
    first = rows[0]
    patterns = first["others"][0]
    lines += [
        "",
        f"exact match on {first['n']:,} sentences with values, and {patterns['n']:,} with carrier "
        "patterns, that training never saw",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
