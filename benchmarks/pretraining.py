"""Objectives of pretraining on equal compute, compared on the dev scores of three tasks.

    python benchmarks/pretraining.py --out RUNS [--minutes 5] [--seeds 0] [key=value ...]

Each objective is trained for the same minutes by the recipe `ko-small`, with the same overrides,
then three tasks begin from it. Their test scores are not read: the choice is made on dev.
"""

import argparse
from pathlib import Path
from statistics import mean

from small_tasks import FINE
from trained_runs import results_of
from turns import heading

RESULTS = Path(__file__).parent / "results" / "pretraining.txt"
OBJECTIVES = {
    "masked, 15 %": ["masking.mlm_probability=0.15", "masking.final_probability=0.0"],
    "masked, 30 % falling to 15 %": [],
    "replaced tokens": [
        "model.generator=0.25",
        "masking.cooccurrence_init=false",
        "masking.mlm_probability=0.15",
        "masking.final_probability=0.0",
    ],
}
TASKS = ("question_pair", "kornli", "korsts")


def main() -> None:
    """Train what is missing, then print and keep the table."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--minutes", type=float, default=5.0)
    arguments.add_argument("--seeds", type=int, nargs="+", default=[0])
    arguments.add_argument("overrides", nargs="*")
    given = arguments.parse_args()
    names = [f"--minutes {given.minutes:g}", *given.overrides]
    command = f"python benchmarks/pretraining.py --out RUNS {' '.join(names)}"
    columns = "".join(f"  {task:>13}" for task in TASKS)
    lines = [heading(command), f"{'dev scores':<30} {'steps':>8}{columns}  {'mean':>7}"]
    for objective, own in OBJECTIVES.items():
        run = given.out / objective.replace(" ", "-").replace(",", "").replace("%", "percent")
        minutes = f"training.minutes={given.minutes}"
        results = results_of(run, ["ko-small", minutes, *own, *given.overrides])
        scores = [_dev_score(task, run, given.seeds) for task in TASKS]
        cells = "".join(f"  {score:13.4f}" for score in scores)
        lines.append(f"{objective:<30} {results['steps']:8,}{cells}  {mean(scores):7.4f}")
    text = "\n".join([*lines, ""])
    print(text)
    RESULTS.write_text(text, encoding="utf-8")


def _dev_score(task: str, run: Path, seeds: list[int]) -> float:
    """The mean over the seeds of a task's dev score when it begins from a run."""
    scores = []
    for seed in seeds:
        folder = run.parent / f"{run.name}-{task}-{seed}"
        words = [task, f"model.init={run}", f"seed={seed}", *FINE]
        scores.append(float(results_of(folder, words)["dev"]["score"]))
    return mean(scores)


if __name__ == "__main__":
    main()
