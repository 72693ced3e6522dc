"""The `numbers` recipe as `make demo` trains it: exact match, and the time and memory it took.

python benchmarks/numbers_corpus.py --out RUNS [--seeds 0 1 2]

Every seed trains a run of its own.
"""

import argparse
import json
import platform
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "numbers.txt"


def main() -> None:
    """Train with each seed and keep the table."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("--out", type=Path, required=True)
    words.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = words.parse_args()
    rows = [trained(seed, given.out / f"numbers-{seed}") for seed in given.seeds]
    text = table(rows)
    print(text)
    RESULTS.write_text(text + "\n", encoding="utf-8")


def trained(seed: int, folder: Path) -> tuple[dict[str, Any], float]:
    """The results of one run, and the seconds of the whole command."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "jumok", "train", "numbers", f"seed={seed}", "--json"]
    run = subprocess.run(
        [*command, "--out", str(folder)], check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(run.stdout), time.perf_counter() - begin


def table(rows: list[tuple[dict[str, Any], float]]) -> str:
    """A line a seed."""
    versions = ", ".join(f"{name} {value}" for name, value in rows[0][0]["versions"].items())
    lines = [
        "jumok train numbers seed=0|1|2",
        f"{date.today()}, {versions}, {platform.system()}",
        "",
        "seed  unseen values  unseen patterns  whole command  training  memory",
    ]
    for results, seconds in rows:
        patterns = results["others"][0]
        lines.append(
            f"{results['seed']:>4}  {results['exact_match']:13.4f}  "
            f"{patterns['exact_match']:15.4f}  {seconds:11.0f} s  "
            f"{results['training_seconds']:6.0f} s  {results['peak_memory_bytes'] / 2**30:3.2f} GiB"
        )
    first = rows[0][0]
    patterns = first["others"][0]
    lines += [
        "",
        f"exact match on {first['n']:,} sentences with values, and {patterns['n']:,} with carrier "
        "patterns, that training never saw",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
