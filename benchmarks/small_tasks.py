"""Eight small Korean tasks: our recipes, the most frequent label, and TF-IDF or BM25.

    python benchmarks/small_tasks.py --data FOLDER --out RUNS [ynat ...] [--seed 0] [--init RUN]

Every system is selected on the development split alone and is scored on the test split once. With
`--init` each recipe except the dialogue is trained once more, initialized from that run (such as
one of `mlm-ko`), with the learning rates of `nsmc-pretrained`. `question_pair` and `hate` begin
from `ko-small-vectors`, `klue-ner`, `kornli` and `3i4k` from `ko-small` by themselves. Finished
runs and `baselines-TASK.json` in RUNS are read, not computed again.
"""

import argparse
import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from baselines import BASELINES, Baseline, baselines
from trained_runs import results_of
from turns import heading

from jumok.tasks.recipe.recipe import load_recipe

RESULTS = Path(__file__).parent / "results" / "small_tasks.txt"
NAMES = {
    "accuracy": "accuracy",
    "macro_f1": "macro F1",
    "pearson": "Pearson",
    "spearman": "Spearman",
    "mse": "MSE",
    "entity_f1": "entity F1",
    "entity_micro_f1": "entity micro F1",
    "character_f1": "character F1",
    "exact_match": "exact match",
    "bleu": "BLEU",
    "bleu_ko_mecab": "BLEU ko-mecab",
    "chrf": "chrF",
}
FINE = ("training.learning_rate=5e-4", "training.layer_decay=0.8")  # as nsmc-pretrained
NOTES = """
dev is the selection score of each system: accuracy, Pearson, entity F1, macro F1 of hate and, of
the dialogue, chrF for BM25 and the recipe's own metric for ours. question_pair is tested on the
official test file, which has another distribution than the training file, as its authors say;
kornli is trained on nine tenths of XNLI's 7,500 translated pairs, the rest is dev (its large
training files were not available), and tested on KLUE's development set; klue-ner is split by us,
as ynat is: scores of ynat, kornli and klue-ner cannot be compared with KLUE's leaderboard. Entity
F1 is KLUE's: the mean over the six types, an entity right with its type and from its first
character to its last; character F1 the mean over all 13 tags; spaces count in neither.
""".strip()
READ = """
Half of the sentences of klue-ner and a fifth of the test pairs of kornli are movie reviews, or
parts of some, which the run of --init may have read, without tags or labels.
""".strip()


@dataclass(frozen=True)
class Line:
    """One system on one task."""

    system: str
    dev: float
    test: dict[str, float]
    seconds: float
    how: str


def main() -> None:
    """Train what is missing, then print the table and write the results."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("--data", type=Path, required=True)
    words.add_argument("--out", type=Path, required=True)
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--init", type=Path)
    words.add_argument("tasks", nargs="*", default=list(BASELINES))
    given = words.parse_args()
    os.environ["JUMOK_DATA"] = str(given.data)
    said = [f"--seed {given.seed}", *([f"--init {given.init.name}"] if given.init else [])]
    command = f"python benchmarks/small_tasks.py --data DATA --out RUNS {' '.join(said)}"
    if given.tasks != list(BASELINES):
        command += f" {shlex.join(given.tasks)}"
    text = "\n".join([heading(command, "scikit-learn", "sacrebleu"), ""])
    for task in given.tasks:
        lines = [of_baseline(found) for found in kept(task, given.out)]
        lines.append(trained(task, given.out / f"{task}-{given.seed}", [f"seed={given.seed}"]))
        if given.init is not None and task != "chatbot":
            extra = [f"seed={given.seed}", f"model.init={given.init}", *FINE]
            lines.append(trained(task, given.out / f"{task}-{given.init.name}-{given.seed}", extra))
        text += f"\n{table(task, lines)}\n"
        print(table(task, lines), flush=True)
    if set(given.tasks) == set(BASELINES):  # otherwise the table would be incomplete
        notes = [NOTES, *([READ] if given.init else []), *signatures(given.out, given.seed)]
        RESULTS.write_text("\n".join([text, *notes, ""]), encoding="utf-8")


def kept(task: str, runs: Path) -> list[Baseline]:
    """The baselines of a task, computed if missing."""
    path = runs / f"baselines-{task}.json"
    if not path.exists():
        runs.mkdir(parents=True, exist_ok=True)
        found = [asdict(each) for each in baselines(task)]
        path.write_text(json.dumps(found, ensure_ascii=False, indent=1), encoding="utf-8")
    return [Baseline(**each) for each in json.loads(path.read_text("utf-8"))]


def of_baseline(found: Baseline) -> Line:
    """A baseline as a line of the table."""
    return Line(found.name, found.dev, found.test, found.seconds, found.chosen)


def trained(recipe: str, folder: Path, words: Sequence[str]) -> Line:
    """The results of a run, trained if missing."""
    results = results_of(folder, [recipe, *words])
    init = load_recipe(recipe, words).model.init
    begins = f"from {Path(init).name}" if init else "from scratch"
    reached = results.get("reachable_f1", 1.0)
    step, seed = results["dev"]["step"], results["seed"]
    how = [
        f"{results['parameters']:,} weights, step {step:,}, seed {seed}",
        *([f"its pieces reach {reached:.4f}"] if reached < 1 else []),
    ]
    return Line(
        f"jumok, {begins}",
        results["dev"]["score"],
        {name: results[name] for name in NAMES if name in results},
        results["wall_seconds"],
        ", ".join(how),
    )


def signatures(runs: Path, seed: int) -> list[str]:
    """The signatures of BLEU and chrF of the dialogue."""
    results = results_of(runs / f"chatbot-{seed}", ["chatbot"])
    return [f"{key}: {value}" for key, value in results.items() if key.endswith("signature")]


def table(task: str, lines: Sequence[Line]) -> str:
    """The systems of a task, one line each."""
    names = [name for name in NAMES if name in lines[0].test]
    heads = "  ".join(f"{NAMES[name]:>8}" for name in names)
    rows = [f"{task:<30} {'dev':>8}  {heads}  {'time':>7}  chosen"]
    for line in lines:
        scores = "  ".join(f"{line.test[name]:{max(len(NAMES[name]), 8)}.4f}" for name in names)
        rows.append(
            f"{line.system:<30} {line.dev:8.4f}  {scores}  {line.seconds:5.0f} s  {line.how}"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    main()
