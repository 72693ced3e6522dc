"""Translation: two tokenizers, search settings and several test sets."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import jumok
from jumok import safetensors_io as tensorfile
from jumok.data.load import load_splits
from jumok.data.table import Table
from jumok.errors import InputError
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.recipe.tables import VocabularyRecipe
from jumok.tasks.registry import get_task
from jumok.tasks.runs.evaluate import evaluate, evaluation_tables
from jumok.tasks.runs.setup import train_or_load
from jumok.tasks.runs.train import resume, train
from jumok.tasks.sequence_to_sequence import Seq2SeqJob, Seq2SeqTask
from tests.errors import raises
from tests.shared_data import shared_data
from tests.tasks.tiny_jobs import splits
from tests.tiny_runs import readings

TWO = ["vocabulary.joint=false", "vocabulary.size=29", "vocabulary.target_size=28"]
SHORT = ["training.steps=4", "training.evaluate_every=2", "decoding.max_ratio=1.5"]
SEARCH = ["decoding.beam=3", "decoding.length_penalty=0.6"]


@pytest.fixture(scope="module")
def two_sided_run(reading_recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run with a tokenizer for each side and beam search in its test."""
    folder = tmp_path_factory.mktemp("two-sided") / "run"
    train(load_recipe(str(reading_recipe), [*TWO, *SHORT, *SEARCH]), folder)
    return folder


@pytest.fixture(scope="module")
def two_sided(two_sided_run: Path) -> Pipeline:
    return jumok.load(two_sided_run)


def copy_of(run: Path, folder: Path) -> Path:
    return Path(shutil.copytree(run, folder / "copy"))


# Two vocabularies


def test_each_side_has_its_tokenizer(two_sided: Pipeline, two_sided_run: Path) -> None:
    source, target = two_sided.vocabulary, two_sided.target_vocabulary
    assert (len(source), len(target)) == (29, 28)
    assert "3" not in "".join(source.piece(i) for i in range(len(source)))
    assert "삼" not in "".join(target.piece(i) for i in range(len(target)))
    config = json.loads((two_sided_run / "config.json").read_text())
    assert config["vocabulary_sha256"] == source.fingerprint
    assert config["target_vocabulary_sha256"] == target.fingerprint
    assert config["model"]["vocabulary_size"] == 29
    assert config["model"]["target_vocabulary_size"] == 28


def test_resuming_with_two_tokenizers_is_bit_identical(
    tmp_path: Path, reading_recipe: Path
) -> None:
    """Interrupted after the first checkpoint and resumed: the same bytes."""
    recipe = load_recipe(str(reading_recipe), [*TWO, *SHORT])
    whole = train(recipe, tmp_path / "whole")
    part = copy_of(tmp_path / "whole", tmp_path)
    (part / "results.json").unlink()
    shutil.rmtree(part / "checkpoints" / "step-4")
    again = resume(part)
    assert again.results["steps"] == whole.results["steps"] == 4
    for name in ("model.safetensors", "vocabulary.target.model", "config.json"):
        assert (part / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_another_target_vocabulary_is_an_error(two_sided_run: Path, tmp_path: Path) -> None:
    moved = copy_of(two_sided_run, tmp_path)
    shutil.copy(moved / "vocabulary.model", moved / "vocabulary.target.model")
    with raises(InputError, "run.other_vocabulary"):
        jumok.load(moved)


def test_a_missing_target_vocabulary_is_named(two_sided_run: Path, tmp_path: Path) -> None:
    moved = copy_of(two_sided_run, tmp_path)
    (moved / "vocabulary.target.model").unlink()
    with raises(InputError, "run.own_file"):
        jumok.load(moved)


def test_initialization_from_a_run_with_two_vocabularies(
    two_sided_run: Path, reading_recipe: Path, tmp_path: Path
) -> None:
    overrides = [
        f'model.init="{two_sided_run}"',
        "training.steps=1",
        "training.learning_rate=1e-12",
    ]
    train(
        load_recipe(str(reading_recipe), [*overrides, "vocabulary.joint=false"]), tmp_path / "run"
    )
    before, after = (
        tensorfile.read_tensors(folder / "model.safetensors")
        for folder in (two_sided_run, tmp_path / "run")
    )
    assert before.keys() == after.keys()
    assert all((before[name] - after[name]).abs().max() < 1e-9 for name in before)
    with raises(InputError, "run.joint_differs_from_init"):
        train(load_recipe(str(reading_recipe), overrides), tmp_path / "other")


def test_the_encoder_of_another_task_and_own_targets(
    review_run: Path, reading_recipe: Path, tmp_path: Path
) -> None:
    """Its weights and vocabulary for the sources; the decoder and its vocabulary are new."""
    overrides = [
        f'model.init="{review_run}"',
        "model.n_decoder_layers=1",
        "training.steps=1",
        "training.learning_rate=1e-12",
        "vocabulary.joint=false",
        "vocabulary.target_size=28",
    ]
    result = train(load_recipe(str(reading_recipe), overrides), tmp_path / "run")
    before, after = (
        tensorfile.read_tensors(folder / "model.safetensors")
        for folder in (review_run, tmp_path / "run")
    )
    shared = before.keys() & after.keys()
    assert shared == {name for name in after if name.startswith("encoder.")}
    assert all((before[name] - after[name]).abs().max() < 1e-9 for name in shared)
    made = jumok.load(result.run.folder)
    assert made.vocabulary.fingerprint == jumok.load(review_run).vocabulary.fingerprint
    assert made.target_vocabulary.n_embeddings == 28


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (
            [*TWO, "vocabulary.target_size=900"],
            r"vocabulary of the targets: vocabulary\.target_size must be at most 36",
        ),
        ([*TWO, "decoding.pattern=[A-Z](a"], r"has a \( without its \)"),
        ([*TWO, "decoding.prefix=ABC"], "decoding.prefix_not_in_vocabulary"),
        (
            [*TWO, 'decoding.forbidden=["ABC"]', 'decoding.choices=["XYZ"]'],
            "constraint.no_spellable_text",
        ),
        (["vocabulary.target_size=30"], "recipe.target_vocabulary_of_joint"),
        (
            ["model.target_vocabulary_size=30"],
            "recipe.target_vocabulary_size",
        ),
        ([*TWO, 'model.tie_embeddings="all"'], "model.vocabularies_of_different_sizes"),
    ],
)
def test_invalid_settings_for_two_vocabularies(
    reading_recipe: Path, tmp_path: Path, overrides: list[str], sentence: str
) -> None:
    with raises(InputError, sentence):
        train(load_recipe(str(reading_recipe), [*SHORT, *overrides]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_classification_has_one_vocabulary_and_no_decoding(review_recipe: Path) -> None:
    for word, sentence in (
        ("vocabulary.joint=false", "vocabulary.joint must be true for the task classification"),
        ("decoding.beam=5", "classification, which generates no text"),
    ):
        with pytest.raises(InputError, match=sentence):
            load_recipe(str(review_recipe), [word])


# The settings in force


def test_the_test_uses_the_decoding_of_the_recipe(two_sided_run: Path, two_sided: Pipeline) -> None:
    results = json.loads((two_sided_run / "results.json").read_text())
    message = (
        "beam=3 length_penalty=0.6 length_norm='power' early_stopping=False "
        "max_length=24 max_ratio=1.5 max_extra=10"  # the model holds 24
    )
    assert results["decoding"] == message
    records = (two_sided_run / "metrics.jsonl").read_text()
    assert '"kind": "dev"' in records


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("baem=5", "config.unknown_key"),
        ("beam=0", "config.out_of_range"),
        ("beam=wide", "config.wrong_type"),
        ("n_best=9", "decoding.n_best_above_beam"),
        ("beam", "config.override_syntax"),
    ],
)
def test_invalid_decoding_overrides(two_sided: Pipeline, word: str, sentence: str) -> None:
    with raises(InputError, sentence):
        two_sided.with_decoding([word])


def test_a_classifier_has_no_decoding_settings(review_run: Path) -> None:
    with raises(InputError, "recipe.decoding_not_for_task"):
        jumok.load(review_run).with_decoding(["beam=2"])


# Several runs as one


def test_an_ensemble_of_runs(reading_recipe: Path, reading_run: Path, tmp_path: Path) -> None:
    """An ensemble of equal runs is that run; of different runs it uses the mean."""
    vocabulary = f'vocabulary.file="{reading_run / "vocabulary.model"}"'
    short = [each for each in SHORT if not each.startswith("decoding")]  # as in the first run
    train(load_recipe(str(reading_recipe), [*short, vocabulary, "seed=1"]), tmp_path / "other")
    one, other = jumok.load(reading_run), jumok.load(tmp_path / "other")
    texts = [source for source, _ in readings(6, 8)]
    alone, twice = one(texts), one.ensemble([one])(texts)
    both, turned = one.ensemble([other])(texts), other.ensemble([one])(texts)
    for answers in zip(alone, twice, both, turned, strict=True):
        first, again, mixed, mixed_again = answers
        assert isinstance(first, jumok.GeneratedText)
        assert isinstance(again, jumok.GeneratedText)
        assert isinstance(mixed, jumok.GeneratedText)
        assert isinstance(mixed_again, jumok.GeneratedText)
        assert again.output == first.output
        assert again.score == pytest.approx(first.score, abs=1e-4)  # log of a mean of equals
        assert mixed.score == pytest.approx(mixed_again.score, abs=1e-4)
    assert [a.score for a in both] != pytest.approx([a.score for a in alone], abs=1e-4)  # type: ignore[attr-defined]


def test_invalid_ensembles(reading_run: Path, two_sided: Pipeline, review_run: Path) -> None:
    with raises(InputError, "pipeline.different_vocabularies"):
        jumok.load(reading_run).ensemble([two_sided])
    with raises(InputError, "pipeline.not_combinable"):
        jumok.load(reading_run).ensemble([jumok.load(review_run)])
    small, large = jumok.load(reading_run), jumok.load(reading_run)
    small.recipe = replace(small.recipe, model=replace(small.recipe.model, max_length=8))
    with raises(InputError, "pipeline.shorter_partner"):
        large.ensemble([small])
    assert [*small.ensemble([large]).ensemble_models] == [large.model]
    covering, refused = (
        ["beam=2", "coverage=0.3"],
        r"coverage must be 0 in an ensemble of 2 runs, got 0\.3",
    )
    with pytest.raises(InputError, match=refused):
        large.with_decoding(covering).ensemble([large])
    with pytest.raises(InputError, match=refused):
        large.ensemble([large]).with_decoding(covering)


# Data


def test_a_default_size_is_that_of_few_texts(capsys: pytest.CaptureFixture[str]) -> None:
    few = splits([("삼백이십", "320"), ("백오", "105")] * 10, ["source", "target"]).train
    made = train_or_load(VocabularyRecipe(joint=False), few)
    printed = capsys.readouterr().err
    for key, size in zip(("vocabulary.size", "vocabulary.target_size"), made.sizes, strict=True):
        assert f"{key} is {size} instead of 8,000" in printed
    train_or_load(VocabularyRecipe(kind="char"), few)
    assert not capsys.readouterr().err


RECIPES = ("multi30k-en-de", "multi30k-en-fr", "koen", "enko", "chatbot")


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_the_first_batch_of_builtin_recipes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows and a small vocabulary; all other settings are unchanged."""
    monkeypatch.setenv("JUMOK_DATA", str(shared_data()))
    overrides = ["data.train_rows=300", "data.dev_rows=20", "vocabulary.size=800"]
    recipe = load_recipe(name, [*overrides, "model.d_model=16", "model.n_heads=2", "model.d_ff=16"])
    splits = load_splits(recipe.data, recipe.columns)
    vocabularies = train_or_load(recipe.vocabulary, splits.train)
    recipe = recipe.with_vocabulary(*vocabularies.sizes)
    model = Seq2SeqTask().build_model(recipe.model, ())
    job = Seq2SeqJob(recipe, model, vocabularies, splits, torch.device("cpu"))
    batch = job.epoch(0)[0]
    assert batch.two_views == name.startswith("multi30k")
    padded = batch.source.input_ids.numel() + batch.target.input_ids.numel()
    assert padded <= recipe.training.batch_tokens * (2 if batch.two_views else 1)
    assert torch.isfinite(job.loss(batch) / batch.n_targets)
    assert recipe.decoding.beam == 5


def test_every_test_set_of_a_corpus_is_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUMOK_DATA", str(shared_data()))
    for name, tests in (
        ("multi30k-en-de", ["test", "test_2017_flickr", "test_2017_mscoco"]),
        ("koen", ["docs_test", "tatoeba_test", "bible_test", "news_test"]),
        ("chatbot", ["test"]),
    ):
        recipe = load_recipe(name, ["data.test_rows=3"])
        assert list(evaluation_tables(recipe)) == tests
        assert all(len(table) == 3 for table in evaluation_tables(recipe).values())
        assert list(evaluation_tables(recipe, "dev")) == ["dev"]


def test_korean_is_also_scored_by_morphemes(
    two_sided: Pipeline,
) -> None:
    pytest.importorskip("mecab_ko")
    table = Table.from_columns({"source": ["삼 일"], "target": ["3 1"]})
    recipe = two_sided.recipe
    korean = replace(recipe, data=replace(recipe.data, target_language="ko"))
    loaded = get_task(korean.task).pipeline(
        two_sided.model,
        two_sided.vocabulary,
        korean,
        (),
        two_sided.device,
        two_sided.target_vocabulary,
    )
    scores = evaluate(loaded, table, "own").scores
    assert list(scores)[2:] == [
        "n",
        "exact_match",
        "bleu",
        "chrf",
        "signature",
        "bleu_ko_mecab",
        "bleu_ko_mecab_signature",
        "loops",
        "decoding",
        "kernel",
    ]
    assert "tok:ko-mecab" in scores["bleu_ko_mecab_signature"]
