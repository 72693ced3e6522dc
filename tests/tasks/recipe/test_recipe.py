"""Recipes: the built-in ones are complete, and each invalid setting raises its message."""

from pathlib import Path

import pytest

from jumok.config_io import from_dict, read_toml
from jumok.errors import InputError
from jumok.tasks.recipe.recipe import Recipe, builtin_recipes, load_recipe
from jumok.tasks.registry import TASKS, get_task
from tests.errors import raises
from tests.tiny_runs import REVIEWS


@pytest.mark.parametrize("name", ["nsmc", "numbers"])
def test_builtin_recipes(name: str) -> None:
    recipe = load_recipe(name)
    assert (recipe.name, recipe.data.corpus) == (name, name)
    assert name in builtin_recipes()


def test_to_toml_round_trips(tmp_path: Path) -> None:
    for name in builtin_recipes():
        recipe = load_recipe(name, ["seed=7"]).with_vocabulary(500)
        path = tmp_path / f"{name}.toml"
        path.write_text(recipe.to_toml(), encoding="utf-8")
        assert from_dict(Recipe, read_toml(path)) == recipe


def test_overrides_of_stable_keys() -> None:
    overrides = [
        "seed=3",
        "device=cpu",
        "model.init=runs/old",
        "training.steps=10",
        "training.epochs=0.5",
        "training.minutes=1",
        "training.batch_tokens=512",
        "training.learning_rate=1e-4",
        "training.precision=float32",
        "training.strict=true",
    ]
    recipe = load_recipe("numbers", overrides)
    training = recipe.training
    assert (recipe.seed, recipe.device, recipe.model.init) == (3, "cpu", "runs/old")
    assert (training.steps, training.epochs, training.minutes) == (10, 0.5, 1.0)
    assert (training.batch_tokens, training.learning_rate) == (512, 1e-4)
    assert (training.precision, training.strict) == ("float32", True)


def test_a_user_recipe_is_named_after_its_file(tmp_path: Path) -> None:
    path = tmp_path / "내 모델.toml"
    text = REVIEWS.format(folder=tmp_path).replace('name = "reviews"\n', "")
    path.write_text(text, encoding="utf-8")
    recipe = load_recipe(str(path))
    assert (recipe.name, recipe.selection_metric) == ("내 모델", "accuracy")


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("numbres", "a built-in name or a .toml file, got 'numbres' (did you mean numbers?)"),
        ("gpt", "(known: "),
        ("", "a .toml file, got ''"),
    ],
)
def test_unknown_recipe(source: str, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        load_recipe(source)
    assert sentence in str(error.value)


OUT_OF_RANGE = (
    *("training.steps=0", "training.minutes=nan", "training.epochs=inf", "training.minutes=inf"),
    *("training.batch_tokens=0", "training.gradient_accumulation_steps=0", "training.log_every=0"),
    *("training.ema_decay=1", "training.label_smoothing=-0.1", "training.beta2=1"),
    *("training.warmup_steps=-1", "training.patience=-1", "training.clip_norm=-1"),
    *("training.weight_decay=nan", "training.learning_rate=0", "training.keep_checkpoints=1"),
    *("augmentation.token_dropout=1.5", "augmentation.subword_sampling=-1", "data.train_rows=-1"),
    *("augmentation.rdrop_alpha=nan", "augmentation.rdrop_alpha=inf"),
    "augmentation.sampling_alpha=nan",
)


@pytest.mark.parametrize(
    ("word", "code"),
    [
        *((word, "config.out_of_range") for word in OUT_OF_RANGE),
        ("name=a/b", "recipe.unusable_name"),
        ("name=", "recipe.unusable_name"),
        ("name=..", "recipe.unusable_name"),
        ("metric=bleu", "recipe.metric_not_for_task"),
        ("task=translation", "extension.unknown_name"),
        ("training.schedule=step", "extension.unknown_name"),
        ("trainig.steps=1", "config.unknown_key"),
        ("training.lerning_rate=1", "config.unknown_key"),
        ("regression.highest=inf", "recipe.regression_range"),
        ("vocabulary.kind=word", "config.wrong_type"),
        ("model.kind=stack", "config.wrong_type"),
        ("data.target_language=korean", "config.wrong_type"),
        ("model.d_model=17", "nn.d_model_not_divisible"),
        ("model.relative_attention_num_buckets=2", "config.out_of_range"),
        ("data.corpus=nscm", "corpus.unknown_corpus"),
    ],
)
def test_invalid_values(review_recipe: Path, word: str, code: str) -> None:
    with raises(InputError, code) as error:
        load_recipe(str(review_recipe), [word])
    if code == "config.out_of_range":
        key = word.partition("=")[0].removeprefix("model.")  # of a layer, which has no table
        assert str(error.value).startswith(f"{key} must be ")


SEQUENCES, MASKED = "task=sequence_to_sequence", "task=masked_language_modeling"
LANGUAGE = ("task=language_modeling", "model.kind=decoder")


@pytest.mark.parametrize("task", TASKS.names())
def test_the_kind_of_the_model_follows_from_the_task(task: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('data.pair = "pair"\ndata.train = "texts.tsv"\ntraining.steps = 1\n')
    if task != "similarity":
        path.write_text(path.read_text().replace('data.pair = "pair"\n', ""))
    recipe = load_recipe(str(path), [f"task={task}", 'model.init=""'])
    assert recipe.model.kind == get_task(task).kinds[0]


@pytest.mark.parametrize(
    ("overrides", "code"),
    [
        ([SEQUENCES, "model.kind=encoder"], "recipe.model_kind_not_for_task"),
        (
            [SEQUENCES, "model.kind=encoder_decoder", "data.pieces=true"],
            "recipe.fixed_value",
        ),
        (["model.scale_output=true"], "recipe.fixed_value"),
        ([*LANGUAGE, "model.scale_output=true"], "recipe.fixed_value"),
        (["model.n_decoder_layers=2"], "recipe.fixed_value"),
        (["training.strict=true", "training.compile=true"], "training.compile_with_strict"),
        (
            ["data.pieces=true", "augmentation.subword_sampling=0.5"],
            "recipe.fixed_value",
        ),
        (["vocabulary.file=a.model", "model.init=runs/a"], "recipe.fixed_value"),
        (["masking.mlm_probability=0.5"], "recipe.table_not_for_task"),
        (["regression.highest=5"], "recipe.table_not_for_task"),
        ([*LANGUAGE, "augmentation.rdrop_alpha=1"], "recipe.fixed_value"),
        ([MASKED, "augmentation.token_dropout=0.1"], "recipe.fixed_value"),
        (["task=tagging", "vocabulary.byte_fallback=true"], "recipe.fixed_value"),
        (
            ["task=regression", "training.label_smoothing=0.1"],
            "recipe.fixed_value",
        ),
        (
            [MASKED, "masking.cooccurrence_init=true", "model.init=runs/old"],
            "recipe.fixed_value",
        ),
        ([MASKED, "data.pair=b"], "recipe.fixed_value"),
        (
            [
                *("data.pair=b", "model.n_segments=2", "model.pooling=compare"),
                "model.kind=encoder_decoder",
            ],
            "recipe.compare_needs_pairs",
        ),
    ],
)
def test_conflicting_settings(review_recipe: Path, overrides: list[str], code: str) -> None:
    with raises(InputError, code) as error:
        load_recipe(str(review_recipe), overrides)
    if code == "recipe.fixed_value":
        assert error.value.message.values["key"] in [word.partition("=")[0] for word in overrides]


def test_an_encoder_may_be_initialized_from_a_run_with_a_decoder(review_recipe: Path) -> None:
    """All hyperparameters are inherited: T5 scales its output and has decoder layers."""
    overrides = ["model.init=runs/t5", "model.scale_output=true", "model.n_decoder_layers=2"]
    recipe = load_recipe(str(review_recipe), overrides)
    assert recipe.model.scale_output
    assert recipe.model.n_decoder_layers == 2


def test_a_training_without_end_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "endless.toml"
    path.write_text(REVIEWS.format(folder=tmp_path).replace("steps = 40\n", ""), encoding="utf-8")
    with raises(InputError, "training.no_end"):
        load_recipe(str(path))


def test_vocabulary_size_must_match_the_vocabulary() -> None:
    recipe = load_recipe("numbers", ["model.vocabulary_size=500"])
    assert recipe.with_vocabulary(500).model.vocabulary_size == 500
    with raises(InputError, "recipe.vocabulary_size"):
        recipe.with_vocabulary(325)
