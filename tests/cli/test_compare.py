"""`jumok compare`: the scores of evaluate, recipes and models, rows that differ."""

from pathlib import Path

import numpy as np
import pytest

import jumok
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.compare import check_comparable, compare, run_outputs
from jumok.tasks.runs.evaluate import evaluate, evaluation_tables
from jumok.tasks.runs.train import train
from tests.cli.commands import call
from tests.tasks.tiny_jobs import score_rows, tag_rows
from tests.tiny_runs import readings

Capture = pytest.CaptureFixture[str]
FEW = ["training.steps=6", "training.evaluate_every=6"]
RECIPE = """
task = "{task}"
[data]
train = "{folder}/train.tsv"
dev = "{folder}/dev.tsv"
test = "{folder}/dev.tsv"
{data}
[vocabulary]
size = {size}
[model]
d_model = 16
n_heads = 2
d_ff = 32
n_layers = 1
{model}
max_length = 48
[training]
steps = 30
batch_tokens = 512
learning_rate = 0.01
evaluate_every = 30
"""


def write_recipe(folder: Path, task: str) -> Path:
    """A recipe of this task and its data."""
    columns, rows, size, settings = {
        "regression": ("text pair score", score_rows, 66, ('pair = "pair"', "n_segments = 2")),
        "tagging": ("text tags", tag_rows, 45, ("", "")),
        "sequence_to_sequence": ("source target", readings, 45, ("", "")),
    }[task]
    for seed, (split, n) in enumerate([("train", 120), ("dev", 40)]):
        lines = ["\t".join(columns.split()), *("\t".join(map(str, row)) for row in rows(n, seed))]
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    kind = "encoder_decoder" if task == "sequence_to_sequence" else "encoder"
    text = RECIPE.format(
        task=task,
        folder=folder,
        data=settings[0],
        model=f'kind = "{kind}"\n{settings[1]}',
        size=size,
    )
    (folder / "recipe.toml").write_text(text, encoding="utf-8")
    return folder / "recipe.toml"


@pytest.fixture(scope="module")
def runs(review_recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two seeds of a recipe, and two of another that learns nothing."""
    folder = tmp_path_factory.mktemp("compare")
    for name, rate in (("a", "0.02"), ("b", "1e-6")):
        for seed in (0, 1):
            settings = [*FEW, f"seed={seed}", f"training.learning_rate={rate}"]
            train(load_recipe(str(review_recipe), settings), folder / f"{name}{seed}")
    return {path.name: path for path in folder.iterdir()}


def test_recipes_by_their_seeds(capsys: Capture, runs: dict[str, Path]) -> None:
    order = [str(runs[name]) for name in ("a0", "b0", "a1", "b1")]
    done = call(capsys, "compare", *order, "--json", "--split", "test")
    (found,) = done.rows
    assert (done.code, done.err) == (0, "")
    assert found["about"] == "recipes"
    assert found["first"] == [order[0], order[2]]
    assert found["second"] == [order[1], order[3]]
    scores = [call(capsys, "evaluate", run, "--json").rows[0]["accuracy"] for run in order]
    accuracy = found["metrics"]["accuracy"]
    assert accuracy["first"] == pytest.approx((scores[0] + scores[2]) / 2)
    assert accuracy["second"] == pytest.approx((scores[1] + scores[3]) / 2)
    assert accuracy["low"] <= accuracy["difference"] <= accuracy["high"]
    first, second = (jumok.load(run) for run in order[:2])
    for row in found["different"]:
        assert (
            first(row["text"]).label == row["first"] != row["second"] == second(row["text"]).label
        )
    assert "This is about the recipes: the test" in call(capsys, "compare", *order).out


def test_a_single_run_decides_nothing_about_its_recipe(
    capsys: Capture, runs: dict[str, Path]
) -> None:
    done = call(capsys, "compare", runs["a0"], runs["b0"], "--show", "1")
    assert done.out.splitlines()[0] == f"A  {runs['a0']}"
    assert "A recipe cannot be judged by a single run: this is about these models" in done.out
    assert "rows with different outputs" in done.out
    for words in (("a0", "b0"), ("a0", "a1"), ("a0", "a1", "b0"), ("a0", "--with", "b0", "b1")):
        done = call(capsys, "compare", *(runs.get(word, word) for word in words), "--json")
        assert [row["about"] for row in done.rows] == ["models"]


def test_the_runs_after_with_are_the_second_recipe(capsys: Capture, runs: dict[str, Path]) -> None:
    paths = [str(runs[name]) for name in ("a0", "b1", "a1", "b0")]
    (found,) = call(capsys, "compare", *paths[:2], "--with", *paths[2:], "--json").rows
    assert (found["first"], found["second"]) == (paths[:2], paths[2:])
    assert found["about"] == "recipes"
    (again,) = call(
        capsys, "compare", "--json", *paths[:2], "--with", paths[2], "--with", paths[3]
    ).rows
    assert again == found


@pytest.mark.parametrize(
    ("task", "metrics"),
    [
        ("regression", ["pearson"]),
        ("tagging", ["entity_f1"]),
        ("sequence_to_sequence", ["bleu", "exact_match"]),
    ],
)
def test_the_scores_are_those_of_evaluate(task: str, metrics: list[str], tmp_path: Path) -> None:
    recipe = load_recipe(str(write_recipe(tmp_path, task)))
    train(recipe, tmp_path / "run")
    pipeline = jumok.load(tmp_path / "run")
    (table,) = evaluation_tables(pipeline.recipe, "dev", pipeline.labels).values()
    statistics = run_outputs(pipeline, table).statistics
    expected = evaluate(pipeline, table, "dev").scores
    itself = compare([pipeline], [pipeline], table)
    for metric in metrics:
        assert statistics[metric].total() == pytest.approx(expected[metric], abs=1e-9)
        assert len(statistics[metric].values) == len(table)
        assert itself.metrics[metric].difference == 0.0
        assert np.isfinite(itself.metrics[metric].p)
    assert itself.different == []


def test_what_cannot_be_compared(
    capsys: Capture, review_run: Path, reading_run: Path, tmp_path: Path
) -> None:
    done = call(capsys, "compare", review_run)
    assert done.code == 2
    assert "compare needs at least two runs, got one; use jumok evaluate" in done.err
    done = call(capsys, "compare", review_run, reading_run)
    assert done.code == 2
    assert "must have the same task and labels, got classification with " in done.err
    check_comparable([jumok.load(review_run)] * 2)
