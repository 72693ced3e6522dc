"""Initialization from another run: vocabulary, hyperparameters and backbone weights."""

import re
import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor

import jumok
from jumok import safetensors_io as tensorfile
from jumok.errors import InputError
from jumok.tasks.recipe.inherited_config import INHERITED, check_same_architecture
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.setup import dry_run
from jumok.tasks.runs.train import resume, train
from tests.errors import raises
from tests.tiny_runs import reviews

STILL = ["training.steps=1", "training.evaluate_every=1", "training.learning_rate=1e-12"]

GUESSING = """
name = "guessing"
task = "masked_language_modeling"

[data]
train = "{folder}/train.txt"
dev = "{folder}/dev.txt"
test = "{folder}/dev.txt"

[vocabulary]
size = 66

[model]
d_model = 16
n_heads = 4
d_ff = 24
n_layers = 2
dropout = 0.0
max_length = 16
norm_first = true
positions = "learned"

[training]
steps = 20
batch_tokens = 256
learning_rate = 0.02
warmup_steps = 5
precision = "float32"
"""


@pytest.fixture(scope="module")
def guessing_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A masked language model with other hyperparameters than the tiny classifier."""
    folder = tmp_path_factory.mktemp("guessing")
    for seed, (split, n) in enumerate([("train", 120), ("dev", 30)]):
        text = "".join(f"{text}\n" for text, _ in reviews(n, seed))
        (folder / f"{split}.txt").write_text(text, encoding="utf-8")
    recipe = folder / "guessing.toml"
    recipe.write_text(GUESSING.format(folder=folder), encoding="utf-8")
    train(load_recipe(str(recipe)), folder / "run")
    return folder / "run"


def weights(run: Path) -> dict[str, Tensor]:
    return tensorfile.read_tensors(run / "model.safetensors")


def differing(first: dict[str, Tensor], second: dict[str, Tensor]) -> set[str]:
    """The names of the weights that differ between the two."""
    return {
        name
        for name in second
        if name not in first
        or first[name].shape != second[name].shape
        or not torch.allclose(first[name], second[name], atol=1e-9, rtol=0)
    }


def test_a_masked_language_model_becomes_a_classifier(
    tmp_path: Path, review_recipe: Path, guessing_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Vocabulary, hyperparameters and encoder are inherited; dropout and head are the recipe's."""
    overrides = [f'model.init="{guessing_run}"', *STILL]
    finished = train(load_recipe(str(review_recipe), overrides), tmp_path / "run")
    first, second = (folder / "vocabulary.model" for folder in (guessing_run, tmp_path / "run"))
    assert first.read_bytes() == second.read_bytes()
    old, new = jumok.load(guessing_run).recipe.model, jumok.load(tmp_path / "run").recipe.model
    assert [getattr(new, name) for name in INHERITED] == [getattr(old, name) for name in INHERITED]
    assert (new.d_ff, new.n_layers, new.dropout) == (24, 2, 0.1)
    before, after = weights(guessing_run), weights(tmp_path / "run")
    assert differing(before, after) == {"output.weight", "output.bias"}
    n = len(after)
    line = (
        f"{n - 2} of {n} weights from {guessing_run}; new: output.weight, output.bias; "
        "skipped: transform.0.bias, transform.0.weight, transform.2.bias, "
        "transform.2.weight"
    )
    assert finished.results["initialized_from"] == line
    assert line in capsys.readouterr().err.splitlines()
    assert resume(tmp_path / "run").results["initialized_from"] == line  # a finished run


def test_an_ignored_vocabulary_is_reported(
    review_recipe: Path, review_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The recipe has a vocabulary of 66 pieces; that of the run is used."""
    overrides = [f'model.init="{review_run}"', 'vocabulary.kind="bpe"', *STILL]
    dry_run(load_recipe(str(review_recipe), overrides))
    assert (
        "jumok: vocabulary.kind and vocabulary.size of the recipe are ignored, because model.init "
        f"= {review_run} sets the vocabulary\n"
    ) in capsys.readouterr().err


@pytest.mark.slow
def test_all_weights_of_a_similar_run_are_loaded(
    tmp_path: Path, review_recipe: Path, review_run: Path
) -> None:
    """Including the head: task and labels are the same."""
    overrides = [f'model.init="{review_run}"', *STILL]
    finished = train(load_recipe(str(review_recipe), overrides), tmp_path / "run")
    before, after = weights(review_run), weights(tmp_path / "run")
    assert before.keys() == after.keys()
    assert not differing(before, after)
    assert finished.results["initialized_from"] == (
        f"{len(after)} of {len(after)} weights from {review_run}"
    )


def test_other_labels_have_a_new_head(
    tmp_path: Path, review_recipe: Path, review_run: Path
) -> None:
    """A head of the same size with another meaning."""
    overrides = [f'model.init="{review_run}"', 'data.labels=["positive","negative"]', *STILL]
    finished = train(load_recipe(str(review_recipe), overrides), tmp_path / "run")
    assert "new: output.weight, output.bias" in finished.results["initialized_from"]


def test_an_encoder_of_any_model_can_be_loaded(
    tmp_path: Path, review_recipe: Path, reading_run: Path
) -> None:
    """Here that of a sequence-to-sequence model; its decoder is skipped."""
    overrides = [f'model.init="{reading_run}"', *STILL]
    finished = train(load_recipe(str(review_recipe), overrides), tmp_path / "run")
    before, after = weights(reading_run), weights(tmp_path / "run")
    assert differing(before, after) == {"output.weight", "output.bias"}
    assert re.search(r"skipped: decoder\..* and \d+ more$", finished.results["initialized_from"])


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        (
            "model.d_ff=48",
            "model.d_ff must be 24 as in {}, got 48; leave it out, or initialize from",
        ),
        ("model.n_layers=1", "model.n_layers must be 2 as in {}, got 1"),
        ("model.norm_first=false", "model.norm_first must be true as in {}, got false"),
        ("model.d_head=8", "model.d_head must be none as in {}, got 8"),
    ],
)
def test_other_hyperparameters_are_an_error(
    tmp_path: Path, review_recipe: Path, guessing_run: Path, word: str, sentence: str
) -> None:
    recipe = load_recipe(str(review_recipe), [f'model.init="{guessing_run}"', word])
    with pytest.raises(InputError, match=re.escape(sentence.format(guessing_run))):
        train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_explicit_hyperparameters_in_the_file_are_kept(
    tmp_path: Path, review_recipe: Path, guessing_run: Path
) -> None:
    """Keys next to `init` are kept; missing keys are inherited from the run."""
    text = review_recipe.read_text(encoding="utf-8")
    path = tmp_path / "own.toml"
    path.write_text(text.replace("[model]", f'[model]\ninit = "{guessing_run}"'), encoding="utf-8")
    recipe = load_recipe(str(path))
    assert (recipe.model.d_ff, recipe.model.norm_first) == (32, True)
    with raises(InputError, "recipe.differs_from_init"):
        train(recipe, tmp_path / "run")
    bare = re.sub(r"(d_model|n_heads|d_ff|n_layers|max_length) = \d+\n", "", path.read_text())
    path.write_text(bare, encoding="utf-8")
    finished = train(load_recipe(str(path), STILL), tmp_path / "run")
    assert "initialized_from" in finished.results


def test_a_builtin_recipe_with_init(guessing_run: Path) -> None:
    """Its hyperparameters are replaced by those of the run; those of the task are kept."""
    shipped = load_recipe("nsmc").model
    found = load_recipe("nsmc", [f'model.init="{guessing_run}"']).model
    run = jumok.load(guessing_run).recipe.model
    check_same_architecture(found, run, guessing_run)
    assert (found.d_ff, found.n_layers, found.max_length) == (24, 2, 16)
    assert (found.pooling, found.dropout) == (shipped.pooling, shipped.dropout) == ("mean", 0.2)
    with raises(InputError, "recipe.differs_from_init"):
        check_same_architecture(shipped, run, guessing_run)


def test_init_must_be_a_finished_run(
    tmp_path: Path, review_recipe: Path, guessing_run: Path
) -> None:
    recipe = load_recipe(str(review_recipe), ["model.init=nowhere"])
    with raises(InputError, "run.not_a_run"):
        train(recipe, tmp_path / "run")
    unfinished = tmp_path / "begun"
    shutil.copytree(guessing_run, unfinished)
    for name in ("model.safetensors", "config.json", "results.json"):
        (unfinished / name).unlink()
    with raises(InputError, "run.no_model_yet"):
        train(
            load_recipe(str(review_recipe), [f'model.init="{unfinished}"']),
            tmp_path / "run",
        )
    assert not (tmp_path / "run").exists()


def test_freeze_is_checked_before_a_run_is_created(tmp_path: Path, review_recipe: Path) -> None:
    recipe = load_recipe(str(review_recipe), ['training.freeze=["layers.7"]'])
    with raises(InputError, "training.freeze_matches_nothing"):
        train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_only_the_head_is_trained_on_a_frozen_encoder(
    tmp_path: Path, review_recipe: Path, guessing_run: Path, precision: str
) -> None:
    overrides = [f'model.init="{guessing_run}"', 'training.freeze=["encoder"]', "training.steps=4"]
    overrides += [
        "training.evaluate_every=4",
        "training.ema_decay=0.5",
        f"training.precision={precision}",
    ]
    train(load_recipe(str(review_recipe), overrides), tmp_path / "run")
    changed = differing(weights(guessing_run), weights(tmp_path / "run"))
    assert changed == {"output.weight", "output.bias"}
