"""The plan of a sweep: combinations, folders, what a repeated sweep leaves alone."""

from pathlib import Path

import pytest

from jumok.errors import InputError
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.run import Run
from jumok.tasks.runs.sweep import plan_sweep, split_values
from tests.errors import raises


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,2,1", ["1", "2"]),
        (",ko-small", ["", "ko-small"]),
        ('{rank=8,targets=["q","v"]},{rank=4}', ['{rank=8,targets=["q","v"]}', "{rank=4}"]),
        ("\"a,b\",'c,d'", ['"a,b"', "'c,d'"]),
        ('"[",1', ['"["', "1"]),
    ],
)
def test_values_between_commas(text: str, values: list[str]) -> None:
    assert split_values(text) == values


def test_every_combination_has_a_readable_folder(review_recipe: Path, tmp_path: Path) -> None:
    words = ["training.steps=2,3", "training.learning_rate=0.1,0.2", "model.n_layers=1"]
    found = plan_sweep(str(review_recipe), words, 2, tmp_path)
    assert len(found) == 8
    assert found[1].folder == tmp_path / "steps=2,learning_rate=0.1,seed=1"
    assert found[1].overrides[1:] == ("training.learning_rate=0.1", "model.n_layers=1", "seed=1")
    assert found[1].command()[:2] == ["train", str(review_recipe)]
    assert [each.folder.name for each in plan_sweep("numbers", ["seed=7,9"], 3, tmp_path)] == [
        "seed=7",
        "seed=9",
    ]


def test_folders_of_values_and_keys_that_look_alike(tmp_path: Path) -> None:
    words = ["model.max_length=64,96", "decoding.max_length=40,50", "name=a b,a:b"]
    found = plan_sweep("numbers", words, 1, tmp_path)
    names = [each.folder.name for each in found]
    assert names[:2] == [
        "model.max_length=64,decoding.max_length=40,name=a-b,seed=0",
        "model.max_length=64,decoding.max_length=40,name=a-b,seed=0'",
    ]
    assert len({*names}) == 8


def test_an_existing_run_is_resumed_and_one_of_another_recipe_refused(
    review_recipe: Path, review_run: Path, tmp_path: Path
) -> None:
    recipe, words = str(review_recipe), ["training.steps=1,2"]
    folder = tmp_path / "steps=2,seed=0"
    made = load_recipe(recipe, ["training.steps=2", "seed=0"])
    Run.create(folder, made, Run(review_run).tokenizers())
    (_, second) = plan_sweep(recipe, words, 1, tmp_path)
    assert second.command() == ["train", "--resume", str(folder)]
    with raises(InputError, "run.sweep_has_other_recipe"):
        plan_sweep(recipe, [*words, "training.learning_rate=0.5"], 1, tmp_path)


def test_a_wrong_value_is_refused_before_any_training(tmp_path: Path) -> None:
    with raises(InputError, "config.wrong_type"):
        plan_sweep("numbers", ["training.steps=5,five"], 3, tmp_path)
    with raises(InputError, "config.override_syntax"):
        plan_sweep("numbers", ["training.steps"], 3, tmp_path)
    assert list(tmp_path.iterdir()) == []
