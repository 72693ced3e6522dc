"""NSMC with and without a split into morphemes by Kiwi before SentencePiece.

    python benchmarks/morphemes.py --out RUNS [--rows 20000] [--steps 1000] [--seeds 0 1]
        [--as-they-are]

The same model of `nsmc` without augmentation, the same steps of equally many tokens; both runs of a
seed at the same time, each on one core. The score is the best on the development split, after an
eighth of the steps each; the test set is not read. Finished runs are read, not trained again; with
--as-they-are unfinished ones are read too, up to the last evaluation that both have.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from statistics import mean

from turns import heading

from jumok.data.load import load_splits
from jumok.tasks.runs.api import Run
from jumok.text.sentencepiece import SentencePieceTokenizer

RESULTS = Path(__file__).parent / "results" / "morphemes.txt"
SPLITS = ("none", "kiwi")  # vocabulary.pretokenizer


def main() -> None:
    """Train what is missing, then print and keep the table."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--rows", type=int, default=20_000)
    arguments.add_argument("--steps", type=int, default=1_000)
    arguments.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    arguments.add_argument("--as-they-are", action="store_true")
    given = arguments.parse_args()
    seeds = " ".join(map(str, given.seeds))
    command = f"python benchmarks/morphemes.py --out RUNS --rows {given.rows} "
    command += f"--steps {given.steps} --seeds {seeds}" + " --as-they-are" * given.as_they_are
    lines = [heading(command, "kiwipiepy")]
    lines.append(
        f"{'pretokenizer':<12}  seed  accuracy, dev  at step  last step  epochs  tokens per review"
    )
    scores: dict[str, list[float]] = {split: [] for split in SPLITS}
    for seed in given.seeds:
        folders = [folder(given.out, split, given.rows, given.steps, seed) for split in SPLITS]
        if not given.as_they_are:
            train(folders, given.rows, given.steps, seed)
        runs = [Run(each) for each in folders]
        n = min(len(run.history) for run in runs)
        for split, run in zip(SPLITS, runs, strict=True):
            best = max(run.history[:n], key=lambda row: row["score"] or 0.0)
            scores[split].append(float(best["score"] or 0.0))
            last = run.history[n - 1]
            lines.append(
                f"{split:<12}  {seed:>4}  {best['score']:13.4f}  {best['step']:7}  "
                f"{last['step']:9}  {last['epoch']:6.1f}  {tokens_per_review(run):17.1f}"
            )
    lines += ["", *(f"{split:<12}  mean {mean(scores[split]):.4f}" for split in SPLITS), ""]
    text = "\n".join(lines)
    print(text)
    RESULTS.write_text(text, encoding="utf-8")


def folder(out: Path, split: str, rows: int, steps: int, seed: int) -> Path:
    """The folder of a run."""
    return out / f"morphemes-{split}-{rows}-{steps}-{seed}"


def train(folders: list[Path], rows: int, steps: int, seed: int) -> None:
    """Train the runs without and with morphemes at the same time."""
    cores = sorted(os.sched_getaffinity(0))
    processes = []
    for number, (split, out) in enumerate(zip(SPLITS, folders, strict=True)):
        if (out / "results.json").exists():
            continue
        words = [
            "nsmc",
            f"vocabulary.pretokenizer={split}",
            "vocabulary.size=6000",
            "augmentation.subword_sampling=0",
            "augmentation.token_dropout=0",
            "augmentation.rdrop_alpha=0",
            f"data.train_rows={rows}",
            "data.test_rows=100",
            "training.epochs=10000",  # the steps end the training
            f"training.steps={steps}",
            f"training.warmup_steps={steps // 10}",
            f"training.evaluate_every={steps // 8}",
            "training.ema_decay=0.99",
            f"seed={seed}",
        ]
        core = str(cores[number % len(cores)])
        command = ["taskset", "--cpu-list", core, sys.executable, "-m", "jumok", "train"]
        processes.append(
            subprocess.Popen(
                [*command, *words, "--out", str(out)], env=os.environ | {"OMP_NUM_THREADS": "1"}
            )
        )
    codes = [process.wait() for process in processes]
    if any(codes):
        sys.exit("a training failed")


def tokens_per_review(run: Run) -> float:
    """Tokens of a training review, on average over the first thousand."""
    texts = list(load_splits(run.recipe.data, only=["train"])["train"].column("text"))[:1000]
    vocabulary = SentencePieceTokenizer.load(run.folder / "vocabulary.model")
    return mean(len(vocabulary.encode(text)) for text in texts)


if __name__ == "__main__":
    main()
