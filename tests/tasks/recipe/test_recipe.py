"""Recipes: the built-in ones are complete, and each invalid setting raises its message."""

from pathlib import Path

import pytest

from jumok.config_io import from_dict, read_toml
from jumok.errors import InputError
from jumok.tasks.recipe.recipe import Recipe, builtin_recipes, load_recipe
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


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("name=a/b", "name must be usable as a folder name, got 'a/b'"),
        ("name=", "name must be usable as a folder name, got ''"),
        ("name=..", "name must be usable as a folder name, got '..'"),
        (
            "metric=bleu",
            "metric must be one of accuracy, macro_f1 for the task classification, got bleu",
        ),
        ("task=translation", "task must be a known name, got 'translation'"),
        ("trainig.steps=1", "trainig is not known; did you mean training?"),
        ("training.lerning_rate=1", "training.lerning_rate is not known; did you mean training.l"),
        ("training.steps=0", "training.steps must be positive, got 0"),
        ("training.minutes=nan", "training.minutes must be positive and finite, got nan"),
        (
            "training.epochs=inf",
            "training.epochs must be positive and finite, got inf",
        ),
        ("training.minutes=inf", "training.minutes must be positive and finite, got inf"),
        ("training.batch_tokens=0", "training.batch_tokens must be at least 1, got 0"),
        (
            "training.gradient_accumulation_steps=0",
            "training.gradient_accumulation_steps must be at least 1, got 0",
        ),
        ("training.log_every=0", "training.log_every must be at least 1, got 0"),
        ("training.ema_decay=1", "training.ema_decay must be at least 0 and below 1, got 1.0"),
        (
            "training.label_smoothing=-0.1",
            "training.label_smoothing must be at least 0 and below 1, got -0.1",
        ),
        ("training.beta2=1", "training.beta2 must be at least 0 and below 1, got 1.0"),
        ("training.warmup_steps=-1", "training.warmup_steps must be at least 0, got -1"),
        ("training.patience=-1", "training.patience must be at least 0, got -1"),
        ("training.clip_norm=-1", "training.clip_norm must be at least 0 and finite, got -1.0"),
        (
            "training.weight_decay=nan",
            "training.weight_decay must be at least 0 and finite, got nan",
        ),
        (
            "training.learning_rate=0",
            "training.learning_rate must be positive and below 10, got 0.0; try 0.001",
        ),
        (
            "training.keep_checkpoints=1",
            "training.keep_checkpoints must be at least 2, got 1",
        ),
        (
            "training.schedule=step",
            "training.schedule must be a known name, got 'step'",
        ),
        (
            "augmentation.token_dropout=1.5",
            "augmentation.token_dropout must be at least 0 and at most 1, got 1.5",
        ),
        (
            "augmentation.subword_sampling=-1",
            "augmentation.subword_sampling must be at least 0 and at most 1, got -1.0",
        ),
        (
            "augmentation.rdrop_alpha=nan",
            "augmentation.rdrop_alpha must be at least 0 and finite, got nan",
        ),
        ("augmentation.rdrop_alpha=inf", "augmentation.rdrop_alpha must be at least 0"),
        (
            "augmentation.sampling_alpha=nan",
            "augmentation.sampling_alpha must be positive and finite, got nan",
        ),
        (
            "regression.highest=inf",
            "regression.highest - regression.lowest must be finite, got inf - 0.0",
        ),
        (
            "vocabulary.kind=word",
            "vocabulary.kind must be 'unigram', 'bpe' or 'char', got ",
        ),
        ("model.kind=stack", "model.kind must be 'encoder', 'decoder' or"),
        ("model.d_model=17", "d_model must be divisible"),
        (
            "model.relative_attention_num_buckets=2",
            "relative_attention_num_buckets must be at least 4",
        ),
        ("data.train_rows=-1", "data.train_rows must be at least 0, got -1; 0 reads all"),
        ("data.corpus=nscm", "nscm"),
        ("data.target_language=korean", "data.target_language must be"),
    ],
)
def test_invalid_values(review_recipe: Path, word: str, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        load_recipe(str(review_recipe), [word])
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["task=sequence_to_sequence"], 'model.kind must be "encoder_decoder" for the task'),
        (
            ["task=sequence_to_sequence", "model.kind=encoder_decoder", "data.pieces=true"],
            "only classification reads tokenized texts",
        ),
        (
            ["model.scale_output=true"],
            "model.scale_output must be left out for the task classification, whose model scales",
        ),
        (
            ["task=language_modeling", "model.kind=decoder", "model.scale_output=true"],
            "model.scale_output must be left out for the task language_modeling, whose model",
        ),
        (
            ["model.n_decoder_layers=2"],
            'model.n_decoder_layers must be left out for model.kind "encoder"',
        ),
        (
            ["training.strict=true", "training.compile=true"],
            "training.compile must be false with training.strict: compiled kernels round",
        ),
        (["data.pieces=true", "augmentation.subword_sampling=0.5"], "must be 0 with data.pieces"),
        (["vocabulary.file=a.model", "model.init=runs/a"], "both name a vocabulary"),
        (
            ["masking.mlm_probability=0.5"],
            "[masking] must be left out for the task classification, which masks",
        ),
        (
            ["regression.highest=5"],
            "[regression] must be left out for the task classification, which pre",
        ),
        (
            ["task=language_modeling", "model.kind=decoder", "augmentation.rdrop_alpha=1"],
            "augmentation.rdrop_alpha must be 0 for the task language_modeling, got 1.0",
        ),
        (
            ["task=masked_language_modeling", "augmentation.token_dropout=0.1"],
            "it is available for classification, multi_label_classification, regression, tagging",
        ),
        (["task=tagging", "vocabulary.byte_fallback=true"], "bytes, which have no tags"),
        (
            ["task=regression", "training.label_smoothing=0.1"],
            "training.label_smoothing must be 0 for the task regression, which has no labels",
        ),
        (
            [
                "task=masked_language_modeling",
                "masking.cooccurrence_init=true",
                "model.init=runs/old",
            ],
            "masking.cooccurrence_init must be false with model.init, which has embeddings",
        ),
        (
            ["task=masked_language_modeling", "data.pair=b"],
            "data.pair must be left out for the task masked_language_modeling, which reads text",
        ),
        (
            [
                *("data.pair=b", "model.n_segments=2", "model.pooling=compare"),
                "model.kind=encoder_decoder",
            ],
            'model.pooling "compare" needs text pairs',
        ),
    ],
)
def test_conflicting_settings(review_recipe: Path, overrides: list[str], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        load_recipe(str(review_recipe), overrides)
    assert sentence in str(error.value)


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
