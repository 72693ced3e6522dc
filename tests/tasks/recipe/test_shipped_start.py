"""A user's recipe begins from the shipped Korean model unless it sets another start."""

import re
from pathlib import Path

import pytest

from jumok.errors import InputError
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.recipe.shipped_start import (
    FINE_TUNING,
    IMPORTED_RATE,
    LINEAR_FIRST,
    SHIPPED_MODEL,
    SHIPPED_VECTORS,
)
from jumok.tasks.runs.import_checkpoint import import_checkpoint
from jumok.tasks.runs.train import train
from tests import hf_folders
from tests.errors import raises
from tests.tiny_runs import reviews

PLAIN = """
task = "classification"

[data]
train = "{folder}/train.tsv"

[training]
steps = 2
evaluate_every = 2
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    rows = "".join(f"{text}\t{label}\n" for text, label in reviews(40, 0))
    (tmp_path / "train.tsv").write_text(f"text\tlabel\n{rows}", encoding="utf-8")
    path = tmp_path / "mine.toml"
    path.write_text(PLAIN.format(folder=tmp_path), encoding="utf-8")
    return path


def test_a_plain_recipe_begins_from_the_shipped_model(
    recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = load_recipe(str(recipe))
    assert made.model.init == SHIPPED_MODEL
    assert (made.model.d_model, made.model.d_embedding) == (256, 128)
    training = {name: getattr(made.training, name) for name in FINE_TUNING}
    assert training == FINE_TUNING
    err = capsys.readouterr().err
    assert "mine.toml begins from ko-small, a Korean model that ships with jumok" in err
    assert 'model.init=""' in err


@pytest.mark.parametrize("name", [SHIPPED_MODEL, SHIPPED_VECTORS])
def test_naming_a_shipped_model_changes_the_model_alone(recipe: Path, name: str) -> None:
    """The same values of fine-tuning: with those of a training from scratch it lost 11 points."""
    default, named = load_recipe(str(recipe)), load_recipe(str(recipe), [f"model.init={name}"])
    assert named.model.init == name
    assert named.training == default.training
    assert (default.model.candidates, named.model.candidates) == (
        (SHIPPED_MODEL, SHIPPED_VECTORS),
        (),
    )


def test_segmentations_are_sampled_after_a_linear_layer(recipe: Path, tmp_path: Path) -> None:
    for overrides in ([], [f"model.init={SHIPPED_VECTORS}"]):
        made = load_recipe(str(recipe), overrides)
        assert made.augmentation.subword_sampling == 0.5
        assert made.training.ema_decay == 0.99
    hf_folders.bert(tmp_path / "bert", head="Model")
    for overrides in (
        ["training.method=fine-tune"],
        ["training.method=linear"],
        ["data.pieces=true"],
        ["augmentation.subword_sampling=0"],
        [f"model.init={tmp_path / 'bert'}"],
    ):
        assert load_recipe(str(recipe), overrides).augmentation.subword_sampling == 0.0


def test_fine_tuning_takes_ten_epochs_after_a_linear_layer(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(
        f'task = "classification"\n[data]\ntrain = "{tmp_path}/a.tsv"\n', encoding="utf-8"
    )
    assert load_recipe(str(path)).training.epochs == 10.0
    assert load_recipe(str(path), ["training.method=fine-tune"]).training.epochs == 6.0


def test_fine_tuning_alone_compares_no_models(recipe: Path) -> None:
    """It was refused for candidates that the defaults had set."""
    made = load_recipe(str(recipe), ["training.method=fine-tune"])
    assert (made.model.init, made.model.candidates) == (SHIPPED_MODEL, ())


def test_an_encoder_of_transformers_has_the_values_of_fine_tuning(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """But a lower rate: it may be deeper. From the folder, and after an import."""
    hf_folders.bert(tmp_path / "bert", head="Model")
    import_checkpoint(tmp_path / "bert", tmp_path / "imported")
    for folder in ("bert", "imported"):
        made = load_recipe(str(recipe), [f"model.init={tmp_path / folder}"])
        expected = FINE_TUNING | LINEAR_FIRST | {"learning_rate": IMPORTED_RATE}
        assert {name: getattr(made.training, name) for name in expected} == expected
        assert made.model.candidates == ()
    assert "ships with jumok" not in capsys.readouterr().err
    own = load_recipe(str(recipe), [f"model.init={tmp_path / 'a run of jumok'}"])
    assert own.training.batch_tokens == 4096


@pytest.mark.parametrize(
    ("task", "pooling", "n_segments"),
    [("classification", "compare", 2), ("regression", "compare", 2), ("similarity", "mean", 0)],
)
def test_pairs_begin_from_the_shipped_vectors(
    recipe: Path, task: str, pooling: str, n_segments: int, capsys: pytest.CaptureFixture[str]
) -> None:
    score = [] if task == "classification" else ["data.score=c"]
    made = load_recipe(str(recipe), [f"task={task}", "data.pair=b", *score])
    assert made.model.init == SHIPPED_VECTORS
    assert (made.model.pooling, made.model.n_segments) == (pooling, n_segments)
    assert "mine.toml begins from ko-small-vectors" in capsys.readouterr().err


def test_tags_are_those_of_characters(recipe: Path) -> None:
    made = load_recipe(str(recipe), ["task=tagging"])
    assert (made.model.init, made.model.tagging) == (SHIPPED_MODEL, "characters")
    assert load_recipe(str(recipe), ["task=tagging", "model.tagging=pieces"]).model.tagging == (
        "pieces"
    )
    assert load_recipe(str(recipe)).model.tagging == "pieces"


def test_values_of_the_recipe_win(recipe: Path) -> None:
    made = load_recipe(str(recipe), ["training.learning_rate=1e-4", "model.dropout=0.3"])
    assert (made.training.learning_rate, made.model.dropout) == (1e-4, 0.3)
    assert made.training.layer_decay == FINE_TUNING["layer_decay"]


@pytest.mark.parametrize(
    "override",
    ["model.init=", "vocabulary.size=66", "model.n_layers=1", "model.kind=encoder_decoder"],
)
def test_another_start_is_kept(
    recipe: Path, override: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = load_recipe(str(recipe), [override])
    assert made.model.init == ""
    assert made.training.batch_tokens != FINE_TUNING["batch_tokens"]
    assert "begins from" not in capsys.readouterr().err


def test_a_recipe_that_names_static_vectors_fits_a_linear_layer(recipe: Path) -> None:
    made = load_recipe(str(recipe), ["model.init=ko-static"])
    assert (made.model.n_layers, made.model.positions) == (0, "none")
    assert made.training.method == "auto"
    assert made.training.batch_tokens == FINE_TUNING["batch_tokens"]


def test_only_an_encoder_has_no_layers(recipe: Path) -> None:
    none = ["model.init=", "model.n_layers=0"]
    assert load_recipe(str(recipe), none).model.n_layers == 0
    with raises(InputError, "config.out_of_range"):
        load_recipe(str(recipe), [*none, "model.kind=encoder_decoder"])


def test_tasks_that_generate_text_are_unchanged(recipe: Path) -> None:
    made = load_recipe(str(recipe), ["task=sequence_to_sequence", "model.kind=encoder_decoder"])
    assert made.model.init == ""


@pytest.mark.slow
def test_it_trains(recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(load_recipe(str(recipe)), tmp_path / "run")
    err = capsys.readouterr().err
    assert re.search(r"[1-9]\d* of \d+ weights from .*ko-small; new: output", err)
