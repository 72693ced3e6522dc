"""Scores of tasks that begin from a pretrained model, and of the recipe alone: mean, range.

    python benchmarks/shipped_model.py RUN_OR_NAME --out RUNS [--seeds 0 1 2] [TASK ...]

Checkpoints are chosen on dev; each run reads its test set once. The recipe alone is not always a
training from scratch: question_pair and hate begin from `ko-small-vectors`, klue-ner, kornli and
3i4k from `ko-small`. Besides the table it writes RUNS/scores.json, which
`scripts/ship_model.py --scores` puts into the model's card.
"""

import argparse
import json
from pathlib import Path
from statistics import mean
from typing import Any

from small_tasks import FINE
from trained_runs import results_of
from turns import heading

RESULTS = Path(__file__).parent / "results" / "shipped_model.txt"
METRICS = {
    "question_pair": "accuracy",
    "kornli": "accuracy",
    "korsts": "pearson",
    "klue-ner": "entity_f1",
    "ynat": "macro_f1",
    "3i4k": "macro_f1",
    "hate": "macro_f1",
    "nsmc": "accuracy",
}
PRETRAINED = {"nsmc": "nsmc-pretrained"}  # the recipe that begins from a model, if it is another


def main() -> None:
    """Train what is missing, then print and keep the table."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("model")
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    arguments.add_argument("tasks", nargs="*", default=list(METRICS))
    given = arguments.parse_args()
    name = Path(given.model).name
    command = f"python benchmarks/shipped_model.py {name} --out RUNS"
    lines = [heading(command), f"{'test scores':<14} {'metric':<10}  the recipe alone  from {name}"]
    rows = []
    complete = list(given.tasks) == list(METRICS)  # else the table would lose the others
    for task in given.tasks:
        fine = [PRETRAINED.get(task, task), f"model.init={given.model}", *FINE]
        systems = {"alone": [task], name: fine}
        texts = {}
        for system, words in systems.items():
            found = [
                results_of(given.out / f"{task}-{system}-{seed}", [*words, f"seed={seed}"])
                for seed in given.seeds
            ]
            texts[system] = _summary(found, METRICS[task])
        lines.append(f"{task:<14} {METRICS[task]:<10}  {texts['alone']:<16}  {texts[name]}")
        rows.append(
            {
                "task": task,
                "metric": METRICS[task],
                "recipe_alone": texts["alone"],
                "score": texts[name],
                "seeds": len(given.seeds),
                "file": f"benchmarks/results/{RESULTS.name}" if complete else "–",
            }
        )
        print(lines[-1], flush=True)
    (given.out / "scores.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    if complete:
        RESULTS.write_text("\n".join([*lines, ""]), encoding="utf-8")


def _summary(results: list[dict[str, Any]], metric: str) -> str:
    """The mean of the seeds, and half their range if there are several."""
    scores = [float(result[metric]) for result in results]
    spread = f" ±{(max(scores) - min(scores)) / 2:.4f}" if len(scores) > 1 else ""
    return f"{mean(scores):.4f}{spread}"


if __name__ == "__main__":
    main()
