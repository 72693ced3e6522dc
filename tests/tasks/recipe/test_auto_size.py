"""The size of a model by the minutes of its training."""

from pathlib import Path

import pytest
import torch

from jumok.errors import RecipeError
from jumok.tasks.recipe.auto_size import SIZES
from jumok.tasks.recipe.recipe import Recipe, load_recipe
from jumok.tasks.runs.setup import prepare_training
from jumok.tasks.runs.train import has_recipe, resume, train
from tests.errors import raises

PAIRS = "".join(f"{i} 더하기 {j}\t{i + j}\n" for i in range(20) for j in range(20))
OWN = """
task = "sequence_to_sequence"

[data]
train = "{folder}/pairs.tsv"

[vocabulary]
size = 40

[model]
kind = "encoder_decoder"

[training]
minutes = 0.02
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "pairs.tsv").write_text(f"source\ttarget\n{PAIRS}", encoding="utf-8")
    path = tmp_path / "mine.toml"
    path.write_text(OWN.format(folder=tmp_path), encoding="utf-8")
    return path


def test_minutes_alone_choose_the_size(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The recipe of the run has what was chosen, so that a resumed training has the same model."""
    recipe = load_recipe(str(file))
    assert (recipe.model.size, recipe.model.norm_first) == ("auto", True)
    run = train(recipe, tmp_path / "run").run
    model = run.recipe().model
    assert model.size == "given"
    assert (model.n_layers, model.d_model) in SIZES
    assert (model.n_heads, model.d_ff) == (model.d_model // 64, 4 * model.d_model)
    assert f"{model.n_layers} layers of d_model {model.d_model} for 0.02" in capsys.readouterr().err
    assert has_recipe(run, recipe)
    assert resume(run.folder).results["parameters"] == run.results()["parameters"]


def test_more_minutes_give_a_larger_model(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With few rows more tokens for each weight would need more pairs than these."""
    monkeypatch.setattr("jumok.tasks.runs.choose_size.TOKENS_PER_WEIGHT", 0.02)
    sizes = []
    for minutes in (0.001, 60):
        recipe = load_recipe(str(file), [f"training.minutes={minutes}"])
        model = prepare_training(recipe, torch.device("cpu")).recipe.model
        sizes.append(SIZES.index((model.n_layers, model.d_model)))
    assert sizes[0] == 0 < sizes[1]


@pytest.mark.parametrize(
    "override",
    [
        "model.n_layers=2",
        "model.d_model=256",
        "model.n_heads=4",
        "model.size=given",
        "training.steps=5",
        "training.epochs=1",
    ],
)
def test_a_size_or_another_end_is_kept(file: Path, override: str) -> None:
    assert load_recipe(str(file), [override]).model.size == "given"


def test_a_shipped_recipe_can_ask_for_it() -> None:
    recipe = load_recipe("koen", ["model.size=auto"])
    assert (recipe.model.size, recipe.model.dropout) == ("auto", 0.1)


def test_it_needs_minutes_and_no_other_weights() -> None:
    with raises(RecipeError, "recipe.size_without_minutes"):
        load_recipe("nsmc", ["model.size=auto"])
    with raises(RecipeError, "recipe.fixed_value"):
        load_recipe("koen", ["model.size=auto", "model.n_kv_heads=2"])


def test_a_recipe_from_scratch_with_a_head(file: Path) -> None:
    """Classifiers begin from a shipped model; without one their size follows the minutes."""
    text = file.read_text(encoding="utf-8").replace("sequence_to_sequence", "classification")
    text = text.replace('kind = "encoder_decoder"', 'init = ""').replace(
        "[vocabulary]\nsize = 40", ""
    )
    file.write_text(text, encoding="utf-8")
    recipe: Recipe = load_recipe(str(file))
    assert (recipe.model.init, recipe.model.size) == ("", "auto")
