"""NSMC by the shipped recipe, three seeds: test accuracy, time and memory of the whole command.

    python benchmarks/nsmc.py --data FOLDER_WITH_NSMC --out RUNS [--seeds 0 1 2]

A run that is finished already is read, not trained again.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "nsmc.txt"


def main() -> None:
    """Train what is missing, then print and keep the table."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("--data", type=Path, required=True)
    words.add_argument("--out", type=Path, required=True)
    words.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = words.parse_args()
    results = [results_of(seed, given.data, given.out / f"nsmc-{seed}") for seed in given.seeds]
    text = table(results)
    print(text)
    RESULTS.write_text(text + "\n", encoding="utf-8")


def results_of(seed: int, data: Path, folder: Path) -> dict[str, Any]:
    """What `results.json` of the run says, trained first where it is not there."""
    path = folder / "results.json"
    if not path.exists():
        command = [sys.executable, "-m", "jumok", "train", "nsmc", f"seed={seed}"]
        environment = os.environ | {"JUMOK_DATA": str(data)}
        subprocess.run([*command, "--out", str(folder)], check=True, env=environment)
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return results


def table(results: list[dict[str, Any]]) -> str:
    """A line a seed, the mean and the spread."""
    versions = results[0]["versions"]
    lines = [
        "JUMOK_DATA=... jumok train nsmc seed=0|1|2 --out runs/nsmc-0|1|2",
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
    lines += [
        "",
        f"test accuracy, mean of {len(test)} seeds: {statistics.mean(test):.4f}{spread}; "
        f"lowest {min(test):.4f}, highest {max(test):.4f}",
        f"{results[0]['n']:,} test reviews, scored once a run; the epoch was chosen on the "
        "development split (the last 10,000 training rows)",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
