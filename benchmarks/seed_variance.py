"""Error rates of tests between two recipes: how often runs of one recipe differ significantly.

    python benchmarks/seed_variance.py --out RUNS [--seeds 24] [--splits 1000]

Runs of one recipe are split at random into two groups of k. A test at the level of 5 % should find
a difference in 5 % of the splits. Simulated runs are new for each split, with the accuracy, the
variance between seeds and the disagreement of the real runs. Real runs: small trainings on NSMC
that differ only in the seed; missing ones are trained. They are few: the rate of an exact test over
the splits of 24 runs differs from 5 % by 1 point (standard deviation over such sets, measured with
the t-test and normal scores; 2 points with 12 runs). "spread": the seeds of the second recipe vary
that much more, or not at all. "own rows": both recipes are equally good, each on rows of its own.
"gain": the second is better by so much; the share is the power.
"""

import argparse
import os
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from turns import heading

RESULTS = Path(__file__).parent / "results" / "seed_variance.txt"
RECIPE = (
    *("data.train_rows=1000", "data.dev_rows=200", "data.test_rows=4000"),
    *("vocabulary.file=ko-small", "model.n_layers=1", "model.d_model=64", "model.d_ff=128"),
    *("training.epochs=100", "training.steps=60", "training.evaluate_every=60"),
    *("augmentation.rdrop_alpha=0", "training.warmup_steps=10"),
)
N_ROWS = 1_000  # of a simulated test set
RESAMPLES = 200  # 1,000 in the library; a fifth of them, since there are thousands of splits
THREE = (3, 3)
PAIRS = ((2, 2), THREE, (5, 5), (2, 6))

Correct = NDArray[np.float64]  # (R, n): which rows each run has right
Draw = Callable[[], tuple[Correct, Correct]]
Test = Callable[[Correct, Correct, int], float]


def main() -> None:
    """Train what is missing, then print and keep the table."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--seeds", type=int, default=24)
    arguments.add_argument("--splits", type=int, default=1_000)
    given = arguments.parse_args()
    command = f"python benchmarks/seed_variance.py --out RUNS --seeds {given.seeds} "
    lines = [heading(f"{command}--splits {given.splits}"), ""]
    real = np.stack([correct_rows(given.out / f"seed-{seed}", seed) for seed in range(given.seeds)])
    scores = real.mean(1)
    lines += [
        f"{given.seeds} runs of one recipe on {real.shape[1]:,} test rows: accuracy "
        f"{scores.min():.4f} to {scores.max():.4f}, standard deviation {scores.std(ddof=1):.4f}",
        f"pairs of single runs with p < 0.05 by the paired bootstrap over rows: "
        f"{_pairs(real)} of {given.seeds * (given.seeds - 1) // 2}",
        "",
        f"p < 0.05 in per cent of {given.splits:,} splits, by runs a side "
        f"(real: {real.shape[1] // 2:,} rows; simulated: {N_ROWS:,})",
        f"{'':<14}" + "".join(f"{name:>22}" for name in TESTS),
    ]
    rng = np.random.default_rng(0)
    draws: list[tuple[str, tuple[int, int], Draw]] = [
        *(("real", sizes, partial(_split, real, sizes, rng)) for sizes in PAIRS),
        *(("simulated", sizes, partial(simulate, sizes, rng)) for sizes in PAIRS),
        *(
            (f"spread x {times:.0f}", THREE, partial(simulate, THREE, rng, spread=(1.0, times)))
            for times in (0.0, 3.0)
        ),
        ("own rows", THREE, partial(simulate, THREE, rng, own_rows=1.0)),
        *(
            (f"gain {gain:.2f}", THREE, partial(simulate, THREE, rng, gain=gain))
            for gain in (0.02, 0.05)
        ),
    ]
    lines += [_row(name, sizes, draw, given.splits) for name, sizes, draw in draws]
    text = "\n".join([*lines, ""])
    print(text)
    RESULTS.write_text(text, encoding="utf-8")


def correct_rows(folder: Path, seed: int) -> Correct:
    """Which rows of its test split a run has right; the run is trained if it is missing."""
    import jumok
    from jumok.tasks.recipe.recipe import load_recipe
    from jumok.tasks.runs.compare import run_outputs
    from jumok.tasks.runs.evaluate import evaluation_tables
    from jumok.tasks.runs.train import train

    if not (folder / "results.json").exists():
        train(load_recipe("nsmc", [*RECIPE, f"seed={seed}"]), folder)
    pipeline = jumok.load(folder)
    (table,) = evaluation_tables(pipeline.recipe, "test", pipeline.labels).values()
    return run_outputs(pipeline, table).statistics["accuracy"].values[:, 1]


def simulate(
    sizes: tuple[int, int],
    rng: np.random.Generator,
    gain: float = 0.0,
    spread: tuple[float, float] = (1.0, 1.0),
    own_rows: float = 0.0,
) -> tuple[Correct, Correct]:
    """Two groups of runs on one test set; the second is better by `gain` on average.

    A row is right where a normal variable is above a bound: the difficulty of the row, the same for
    all runs, plus the seed (times the `spread` of the group), plus what the seed does to the row.
    The constants give the real runs' accuracy (0.624), standard deviation of seeds without the part
    of the rows (0.0093) and share of rows on which two runs disagree (0.374).
    """
    groups = []
    difficulty = rng.normal(size=N_ROWS)
    for size, factor, shift in zip(sizes, spread, (0.0, gain), strict=True):
        of_recipe = own_rows * rng.normal(size=N_ROWS)
        of_seed = shift / 0.215 + rng.normal(size=(size, 1)) * 0.043 * factor  # slope of accuracy
        of_row = rng.normal(size=(size, N_ROWS)) * 1.45
        groups.append((difficulty + of_recipe + of_seed + of_row > -0.557).astype(np.float64))
    return groups[0], groups[1]


@cache
def _weights(n: int) -> NDArray[np.float64]:
    """The share of each of n rows in each resample, (S, n): the same for all splits."""
    return np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), RESAMPLES) / n


def _p(differences: NDArray[np.float64]) -> float:
    """The two-sided p of the differences in the resamples."""
    fewer = min((differences <= 0).sum(), (differences >= 0).sum())
    return min(1.0, 2 * float(1 + fewer) / (1 + len(differences)))


def over_rows(first: Correct, second: Correct, seed: int) -> float:
    """The paired bootstrap over rows, as of two models; it ignores the variance between seeds."""
    weights = _weights(first.shape[1])
    return _p(weights @ (second.mean(0) - first.mean(0)))


def hierarchical(first: Correct, second: Correct, seed: int) -> float:
    """The bootstrap that draws the runs of each group, and the rows, with replacement."""
    rng = np.random.default_rng(seed)
    rows = _weights(first.shape[1])
    means = [
        (rng.multinomial(k, np.full(k, 1 / k), RESAMPLES) * (rows @ runs.T)).sum(1) / k
        for k, runs in ((len(runs), runs) for runs in (first, second))
    ]
    return _p(means[1] - means[0])


def permutation(first: Correct, second: Correct, seed: int) -> float:
    """The exact permutation test over the mean scores of the runs."""
    scores = np.concatenate([first.mean(1), second.mean(1)])
    splits = [list(each) for each in combinations(range(len(scores)), len(first))]
    means = np.array([scores[each].mean() for each in splits])
    rest = (scores.sum() - means * len(first)) / len(second)
    differences = np.abs(means - rest)
    return float((differences >= differences[0] - 1e-12).mean())


def seeds_and_rows(first: Correct, second: Correct, seed: int) -> float:
    """The test of `jumok compare`."""
    from jumok.evaluation.recipe_difference import recipe_difference
    from jumok.tasks.shared.row_statistics import fraction

    ours, theirs = ([fraction(run > 0) for run in runs] for runs in (first, second))
    return recipe_difference(ours, theirs, RESAMPLES, seed).p


TESTS: dict[str, Test] = {
    "bootstrap of rows": over_rows,
    "of seeds and rows": hierarchical,
    "permutation": permutation,
    "jumok compare": seeds_and_rows,
}


def _row(name: str, sizes: tuple[int, int], draw: Draw, splits: int) -> str:
    """A line of the table."""
    found = np.zeros(len(TESTS))
    for number in range(splits):
        first, second = draw()
        found += [test(first, second, number) < 0.05 for test in TESTS.values()]
    cells = "".join(f"{rate:>22.1f}" for rate in found / splits * 100)
    line = f"{name:<10} {sizes[0]}/{sizes[1]}{cells}"
    print(line, flush=True)
    return line


def _split(
    runs: Correct, sizes: tuple[int, int], rng: np.random.Generator
) -> tuple[Correct, Correct]:
    """Two random groups of the runs, on a random half of the rows."""
    order = rng.permutation(len(runs))
    some = runs[:, rng.permutation(runs.shape[1])[: runs.shape[1] // 2]]
    return some[order[: sizes[0]]], some[order[sizes[0] : sum(sizes)]]


def _pairs(runs: Correct) -> int:
    """The number of pairs of runs that the paired bootstrap finds different."""
    pairs: Sequence[tuple[int, int]] = list(combinations(range(len(runs)), 2))
    return sum(over_rows(runs[[one]], runs[[other]], 0) < 0.05 for one, other in pairs)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
