"""Tables of runs: groups by what differs, means over seeds, the best where it is certain."""

import statistics
from pathlib import Path

import pytest

import jumok
from jumok.errors import InputError
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.compare import compare
from jumok.tasks.runs.evaluate import evaluation_tables
from jumok.tasks.runs.score_table import score_table
from jumok.tasks.runs.train import train
from tests.errors import raises
from tests.tiny_runs import reviews


@pytest.fixture(scope="module")
def runs(review_recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two seeds of a recipe that learns, and two of one that does not."""
    folder = tmp_path_factory.mktemp("table")
    for seed in (0, 1):
        for rate, steps in (("0.02", 40), ("1e-6", 2)):
            settings = [f"seed={seed}", f"training.learning_rate={rate}", f"training.steps={steps}"]
            train(load_recipe(str(review_recipe), settings), folder / f"{rate}-{seed}")
    return sorted(folder.iterdir())


def test_groups_means_and_deviations(runs: list[Path]) -> None:
    learned, not_learned = score_table(runs)
    assert learned.values == {"training.steps": "40", "training.learning_rate": "0.02"}
    assert not_learned.values == {"training.steps": "2", "training.learning_rate": "1e-06"}
    assert list(learned.runs) == runs[:2]
    values = [jumok.evaluate(run, split="test")["accuracy"] for run in runs[2:]]
    score = not_learned.scores["accuracy"]
    assert (score.mean, score.std) == pytest.approx(
        (statistics.mean(values), statistics.stdev(values))
    )


def test_the_best_is_marked_where_the_comparison_of_recipes_finds_it(runs: list[Path]) -> None:
    groups = score_table(runs, test=True)
    pipelines = [jumok.load(run) for run in runs]
    (table,) = evaluation_tables(pipelines[0].recipe, "test", pipelines[0].labels).values()
    found = compare(pipelines[:2], pipelines[2:], table).metrics["accuracy"]
    assert found.difference < -0.2
    assert groups[0].scores["accuracy"].best == (found.p < 0.05)
    assert groups[0].scores["accuracy"].best or found.p > 0.01
    assert not groups[1].scores["accuracy"].best
    assert not groups[0].scores["macro_f1"].best  # has no sums over rows, so no test


def test_a_single_seed_is_never_best(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    groups = score_table([runs[0], *runs[2:]], test=True)
    assert groups[0].scores["accuracy"].std is None
    assert not any(score.best for group in groups for score in group.scores.values())
    assert "needs two groups or more, and two seeds or more of each" in capsys.readouterr().err


def test_rows_from_memory_are_compared_by_their_content(
    review_recipe: Path, runs: list[Path], tmp_path: Path
) -> None:
    """`jumok.train(data=rows)` keeps them in each run's folder; the folder is not a difference."""
    for seed in (0, 1):
        jumok.train(
            review_recipe,
            data=reviews(120, 0),
            out=tmp_path / str(seed),
            seed=seed,
            training__steps=1,
        )
    (group,) = score_table(sorted(tmp_path.iterdir()))
    assert (group.values, len(group.runs)) == ({"name": "reviews"}, 2)


def test_what_is_not_finished_is_left_out(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (group,) = score_table([*runs[:2], tmp_path])
    assert len(group.runs) == 2
    assert f"{tmp_path} is not finished: left out" in capsys.readouterr().err
    with raises(InputError, "run.no_finished_runs"):
        score_table([tmp_path])
    with raises(InputError, "run.not_a_run"):
        score_table([tmp_path / "nowhere"])


def test_language_models_have_no_test(
    language_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (group,) = score_table([language_run])
    assert {"perplexity", "bits_per_byte"} <= group.scores.keys()
