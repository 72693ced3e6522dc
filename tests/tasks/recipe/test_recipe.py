"""Recipes: those that ship are whole, and each thing that cannot be is refused in a sentence."""

from pathlib import Path

import pytest

from jumok.config_io import from_dict, read_toml
from jumok.errors import InputError
from jumok.tasks.recipe.recipe import Recipe, builtin_recipes, load_recipe
from tests.tiny_runs import REVIEWS


@pytest.mark.parametrize("name", ["nsmc", "numbers"])
def test_built_in_recipes(name: str) -> None:
    recipe = load_recipe(name)
    assert (recipe.name, recipe.data.corpus) == (name, name)
    assert name in builtin_recipes()


def test_a_recipe_written_out_is_the_same_recipe(tmp_path: Path) -> None:
    for name in builtin_recipes():
        recipe = load_recipe(name, ["seed=7"]).with_vocabulary(500)
        path = tmp_path / f"{name}.toml"
        path.write_text(recipe.to_toml(), encoding="utf-8")
        assert from_dict(Recipe, read_toml(path)) == recipe


def test_stable_keys_are_laid_over() -> None:
    words = [
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
    recipe = load_recipe("numbers", words)
    training = recipe.training
    assert (recipe.seed, recipe.device, recipe.model.init) == (3, "cpu", "runs/old")
    assert (training.steps, training.epochs, training.minutes) == (10, 0.5, 1.0)
    assert (training.batch_tokens, training.learning_rate) == (512, 1e-4)
    assert (training.precision, training.strict) == ("float32", True)


def test_an_own_recipe_is_named_like_its_file(tmp_path: Path) -> None:
    path = tmp_path / "내 모델.toml"
    text = REVIEWS.format(folder=tmp_path).replace('name = "reviews"\n', "")
    path.write_text(text, encoding="utf-8")
    recipe = load_recipe(str(path))
    assert (recipe.name, recipe.selection_metric) == ("내 모델", "accuracy")


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("numbres", "'numbres' is no built-in recipe (did you mean numbers?) and no .toml file"),
        ("gpt", "(known: "),
        ("", "'' is no built-in recipe"),
    ],
)
def test_a_recipe_that_is_not_there(source: str, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        load_recipe(source)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("name=a/b", "name 'a/b' cannot name a folder"),
        ("name=", "name '' cannot name a folder"),
        ("name=..", "name '..' cannot name a folder"),
        ("metric=bleu", "metric bleu is not one of classification; choose from accuracy, macro_f1"),
        ("task=translation", "task = \"translation\": input should be 'classification', "),
        ("trainig.steps=1", "trainig is not known; did you mean training?"),
        ("training.lerning_rate=1", "training.lerning_rate is not known; did you mean training.l"),
        ("training.steps=0", "training.steps 0 is no time; give more than 0"),
        ("training.minutes=nan", "training.minutes nan is no time"),
        (
            "training.epochs=inf",
            "training.epochs inf is no time; give more than 0, less than in",
        ),
        ("training.minutes=inf", "training.minutes inf is no time"),
        ("training.batch_tokens=0", "training.batch_tokens 0: give 1 or more"),
        (
            "training.gradient_accumulation_steps=0",
            "training.gradient_accumulation_steps 0: give 1 or more",
        ),
        ("training.log_every=0", "training.log_every 0: give 1 or more"),
        ("training.ema_decay=1", "training.ema_decay 1.0: give 0 or more, below 1"),
        ("training.label_smoothing=-0.1", "training.label_smoothing -0.1: give 0 or more, below 1"),
        ("training.beta2=1", "training.beta2 1.0: give 0 or more, below 1"),
        ("training.warmup_steps=-1", "training.warmup_steps -1: give 0 or more"),
        ("training.patience=-1", "training.patience -1: give 0 or more"),
        ("training.clip_norm=-1", "training.clip_norm -1.0: give 0 or more"),
        ("training.weight_decay=nan", "training.weight_decay nan: give 0 or more"),
        ("training.learning_rate=0", "training.learning_rate 0.0: give e.g. 0.001"),
        (
            "training.keep_checkpoints=1",
            "training.keep_checkpoints 1 leaves no second checkpoint; keep 2",
        ),
        ("training.schedule=step", "training.schedule = \"step\": input should be 'inverse_sqrt'"),
        ("augmentation.token_dropout=1.5", "augmentation.token_dropout 1.5: give 0 to 1"),
        ("augmentation.subword_sampling=-1", "augmentation.subword_sampling -1.0: give 0 to 1"),
        ("augmentation.rdrop_alpha=nan", "augmentation.rdrop_alpha nan and sampling_alpha 0.2: gi"),
        ("augmentation.rdrop_alpha=inf", "augmentation.rdrop_alpha inf and sampling_alpha"),
        ("augmentation.sampling_alpha=nan", "sampling_alpha nan: give 0 or more, and more than 0"),
        ("regression.highest=inf", "regression.lowest 0.0 and highest inf have no range"),
        (
            "vocabulary.kind=word",
            "vocabulary.kind = \"word\": input should be 'unigram', 'bpe' or 'char'",
        ),
        ("model.kind=tower", "model.kind = \"tower\": input should be 'encoder', 'decoder' or"),
        ("model.d_model=17", "d_model 17"),
        (
            "model.relative_attention_num_buckets=2",
            "relative_attention_num_buckets must be at least 4",
        ),
        ("data.train_rows=-1", "data.train_rows = -1; wanted 0 (all) or more"),
        ("data.corpus=nscm", "nscm"),
        ("data.target_language=korean", 'data.target_language = "korean": input should be'),
    ],
)
def test_each_value_that_cannot_be(review_recipe: Path, word: str, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        load_recipe(str(review_recipe), [word])
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["task=sequence_to_sequence"], 'model.kind "encoder" does not fit the task'),
        (
            ["task=sequence_to_sequence", "model.kind=encoder_decoder", "data.pieces=true"],
            "only texts to classify may be cut already",
        ),
        (
            ["model.scale_output=true"],
            "model.scale_output came with the task classification, whose model has no output",
        ),
        (
            ["task=language_modeling", "model.kind=decoder", "model.scale_output=true"],
            "model.scale_output came with the task language_modeling, whose model has no output",
        ),
        (
            ["model.n_decoder_layers=2"],
            'model.n_decoder_layers 2 came with model.kind "encoder", which has no decoder; leave',
        ),
        (
            ["training.strict=true", "training.compile=true"],
            "training.strict promises the same bits everywhere, and training.compile makes kern",
        ),
        (["data.pieces=true", "augmentation.subword_sampling=0.5"], "cuts texts anew"),
        (["vocabulary.file=a.model", "model.init=runs/a"], "both name a vocabulary"),
        (
            ["masking.mlm_probability=0.5"],
            "[masking] came with the task classification, which guesses",
        ),
        (["regression.highest=5"], "[regression] came with the task classification, which learns"),
        (
            ["task=language_modeling", "model.kind=decoder", "augmentation.rdrop_alpha=1"],
            "augmentation.rdrop_alpha 1.0 came with the task language_modeling, whose texts",
        ),
        (
            ["task=masked_language_modeling", "augmentation.token_dropout=0.1"],
            "set it to 0, or choose from classification, regression, tagging",
        ),
        (["task=tagging", "vocabulary.byte_fallback=true"], "a byte has no tag of its own"),
        (
            ["task=regression", "training.label_smoothing=0.1"],
            "training.label_smoothing 0.1 came with the task regression, which has no labels",
        ),
        (
            ["task=masked_language_modeling", "data.pair=b"],
            "data.pair came with the task masked_language_modeling, which reads text",
        ),
        (
            [
                *("data.pair=b", "model.n_segments=2", "model.pooling=compare"),
                "model.kind=encoder_decoder",
            ],
            'model.pooling "compare" puts two texts beside each other; give pairs',
        ),
    ],
)
def test_what_does_not_go_together(review_recipe: Path, words: list[str], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        load_recipe(str(review_recipe), words)
    assert sentence in str(error.value)


def test_an_encoder_may_begin_from_a_run_that_has_a_decoder(review_recipe: Path) -> None:
    """Its measures come along: T5 scales its output, and has a decoder of so many layers."""
    words = ["model.init=runs/t5", "model.scale_output=true", "model.n_decoder_layers=2"]
    recipe = load_recipe(str(review_recipe), words)
    assert recipe.model.scale_output
    assert recipe.model.n_decoder_layers == 2


def test_a_training_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "endless.toml"
    path.write_text(REVIEWS.format(folder=tmp_path).replace("steps = 40\n", ""), encoding="utf-8")
    with pytest.raises(InputError, match=r"no end was given; set training\.steps, "):
        load_recipe(str(path))


def test_the_size_of_the_vocabulary_is_the_vocabulary_s_own() -> None:
    recipe = load_recipe("numbers", ["model.vocabulary_size=500"])
    assert recipe.with_vocabulary(500).model.vocabulary_size == 500
    with pytest.raises(InputError, match=r"model\.vocabulary_size 500 is not the vocabulary's 325"):
        recipe.with_vocabulary(325)
