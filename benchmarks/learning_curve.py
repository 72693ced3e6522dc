"""NSMC with few labelled reviews: from a pretrained model, from scratch, and TF-IDF.

    python benchmarks/learning_curve.py RUN_OR_NAME --out RUNS [--rows N ...] [--seeds 0 1 2]
        [--finished]

Each system trains on the first N training reviews and is chosen on the first N of the development
split; each run reads the test set once. The systems from scratch have the shape of `nsmc` and the
vocabulary of `ko-small`, since 100 reviews are too few to train one. With --finished no run is
trained, a cell may have fewer seeds, and a system without any finished run keeps its row of the
committed table, which does not depend on the model. Besides the table it writes
docs/images/learning-curve.png.
"""

import argparse
import os
import re
from pathlib import Path
from statistics import mean

import numpy as np
from small_tasks import FINE
from trained_runs import results_of
from turns import heading

RESULTS = Path(__file__).parent / "results" / "learning_curve.txt"
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "learning-curve.png"
FINISHED = "results.json"
STEPS = {100: 120, 1_000: 400, 10_000: 1_600}  # optimizer steps, the same for both systems
STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0)  # scikit-learn's C


def main() -> None:
    """Train what is missing, then print and keep the table and the picture."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("model")
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--rows", type=int, nargs="+", default=list(STEPS))
    arguments.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    arguments.add_argument("--finished", action="store_true")
    given = arguments.parse_args()
    name = Path(given.model).name
    systems = {
        f"from {name}": ["nsmc-pretrained", f"model.init={given.model}", *FINE],
        "from scratch": ["nsmc", "vocabulary.file=ko-small"],
    }
    rows, seeds = " ".join(map(str, given.rows)), " ".join(map(str, given.seeds))
    command = f"python benchmarks/learning_curve.py {name} --out RUNS --rows {rows} --seeds {seeds}"
    command += " --finished" * given.finished
    lines = [heading(command, "scikit-learn"), f"{'labelled reviews':<20}" + _cells(given.rows)]
    curves: dict[str, list[list[float]]] = {}
    for system, words in systems.items():
        curves[system] = [
            [
                _accuracy(given.out, system, words, rows, seed)
                for seed in given.seeds
                if not given.finished
                or (_folder(given.out, system, rows, seed) / FINISHED).exists()
            ]
            for rows in given.rows
        ]
        if given.finished and not any(curves[system]):
            curves[system] = _committed(system, len(given.rows))
    curves["TF-IDF"] = [[_tfidf(rows)] for rows in given.rows]
    for system, scores in curves.items():
        cells = "".join(f"  {_mean_and_range(found):>20}" for found in scores)
        lines.append(f"{system:<20}{cells}")
    text = "\n".join(
        [*lines, "", "accuracy on the 50,000 test reviews: mean ± half the range (seeds)", ""]
    )
    print(text)
    RESULTS.write_text(text, encoding="utf-8")
    _draw(given.rows, curves)


def _accuracy(out: Path, system: str, words: list[str], rows: int, seed: int) -> float:
    """The test accuracy of a run with `rows` labelled reviews."""
    steps = STEPS[rows]
    limits = [
        f"data.train_rows={rows}",
        f"data.dev_rows={rows}",
        "training.epochs=10000",  # steps end the training
        f"training.steps={steps}",
        f"training.warmup_steps={steps // 10}",
        f"training.evaluate_every={steps // 8}",
        "training.ema_decay=0.98",
        f"seed={seed}",
    ]
    folder = _folder(out, system, rows, seed)
    return float(results_of(folder, [*words, *limits])["accuracy"])


def _folder(out: Path, system: str, rows: int, seed: int) -> Path:
    return out / f"curve-{system.replace(' ', '-')}-{rows}-{seed}"


def _tfidf(rows: int) -> float:
    """The test accuracy of logistic regression on character n-grams, chosen on `rows` of dev."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    from jumok.data.config import DataConfig
    from jumok.data.load import load_splits

    splits = load_splits(DataConfig(corpus="nsmc", train_rows=rows, dev_rows=rows))
    texts = {name: list(splits[name].column("text")) for name in ("train", "dev", "test")}
    labels = {name: np.array(list(splits[name].column("label"))) for name in texts}
    found = []
    for ngrams in ((1, 2), (1, 3)):
        vectorizer = TfidfVectorizer(
            analyzer="char_wb",
            ngram_range=ngrams,
            sublinear_tf=True,
            min_df=1 if rows < 1000 else 2,
        )
        train = vectorizer.fit_transform(texts["train"])
        dev, test = (vectorizer.transform(texts[name]) for name in ("dev", "test"))
        for strength in STRENGTHS:
            model = LogisticRegression(C=strength, max_iter=300).fit(train, labels["train"])
            on_dev = float((model.predict(dev) == labels["dev"]).mean())
            found.append((on_dev, model, test))
    _, model, test = max(found, key=lambda each: each[0])
    return float((model.predict(test) == labels["test"]).mean())


def _draw(rows: list[int], curves: dict[str, list[list[float]]]) -> None:
    """Accuracy over the number of labelled reviews, on a logarithmic axis."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for (system, scores), marker in zip(curves.items(), "osD", strict=True):
        means = [100 * mean(found) for found in scores]
        line = axes.plot(rows, means, marker=marker, label=system)[0]
        for n, middle, found in zip(rows, means, scores, strict=True):
            if len(found) > 1:
                half = 50 * (max(found) - min(found))
                axes.errorbar(n, middle, half, capsize=3, color=line.get_color())
    axes.set_xscale("log")
    axes.set_xticks(rows, [f"{n:,}" for n in rows])
    axes.minorticks_off()
    axes.set_xlabel("labelled reviews")
    axes.set_ylabel("NSMC test accuracy in %")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(PICTURE, dpi=160)


def _committed(system: str, columns: int) -> list[list[float]]:
    """Scores with the means, ranges and seeds of a system's row in the committed table."""
    row = re.search(rf"^{re.escape(system)} .*$", RESULTS.read_text(encoding="utf-8"), re.MULTILINE)
    cells = re.findall(r"([\d.]+)(?: ±([\d.]+))? \((\d+)\)", row.group()) if row else []
    if len(cells) != columns:
        raise SystemExit(f"{RESULTS.name} must have {columns} scores {system}, got {len(cells)}")
    return [
        np.linspace(
            float(middle) - float(half or 0), float(middle) + float(half or 0), int(seeds)
        ).tolist()
        for middle, half, seeds in cells
    ]


def _cells(rows: list[int]) -> str:
    return "".join(f"  {n:>20,}" for n in rows)


def _mean_and_range(scores: list[float]) -> str:
    """The mean, half the range if there is more than one seed, and the number of seeds."""
    spread = f" ±{(max(scores) - min(scores)) / 2:.4f}" if len(scores) > 1 else ""
    return f"{mean(scores):.4f}{spread} ({len(scores)})"


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "Agg")
    main()
