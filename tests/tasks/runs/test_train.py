"""From a recipe to a run: tokenized data, seeds, evaluation and reports."""

import io
import json
from pathlib import Path

import pytest
import sentencepiece
import torch

import jumok
from jumok.data.load import load_splits
from jumok.errors import InputError
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.evaluate import evaluate
from jumok.tasks.runs.examples import examples
from jumok.tasks.runs.setup import prepare_training
from jumok.tasks.runs.train import resume, train
from jumok.text.sentencepiece import SentencePieceTokenizer
from tests.errors import raises
from tests.tiny_runs import REVIEWS, reviews, write_reviews

SHORT = ["training.steps=4", "training.evaluate_every=4"]


def write_pieces(folder: Path, vocabulary: SentencePieceTokenizer) -> Path:
    """The reviews as JSON lines of pieces and a label."""
    for seed, (split, n) in enumerate([("train", 120), ("dev", 30), ("test", 40)]):
        rows = reviews(n, seed)
        lines = [
            {"id": i, "doc": vocabulary.pieces(text), "label": int(label == "positive")}
            for i, (text, label) in enumerate(rows)
        ]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        (folder / f"{split}.json").write_text(text, encoding="utf-8")
    recipe = REVIEWS.format(folder=folder).replace(".tsv", ".json")
    recipe = recipe.replace("[vocabulary]", 'pieces = true\nformat = "jsonl"\n\n[vocabulary]')
    path = folder / "pieces.toml"
    path.write_text(recipe, encoding="utf-8")
    return path


def test_pieces_of_an_existing_vocabulary(tmp_path: Path, review_run: Path) -> None:
    """Files tokenized by a model, and that model next to them."""
    model = review_run / "vocabulary.model"
    recipe = write_pieces(tmp_path, SentencePieceTokenizer.load(model))
    overrides = [*SHORT, f'vocabulary.file="{model}"', "model.kind=encoder_decoder"]
    finished = train(load_recipe(str(recipe), overrides), tmp_path / "run")
    assert finished.results["n"] == 40
    assert (tmp_path / "run" / "vocabulary.model").read_bytes() == model.read_bytes()
    loaded = jumok.load(tmp_path / "run")
    assert loaded.labels == ("0", "1")
    assert loaded("이 영화 재미있어요").label in ("0", "1")
    assert "▁" not in (tmp_path / "run" / "report.html").read_text()  # texts are spelled out
    test = load_splits(loaded.recipe.data, loaded.recipe.columns).test
    second = evaluate(loaded, test, "test").scores
    assert second["accuracy"] == finished.results["accuracy"]


def test_training_on_pieces_equals_training_on_texts(tmp_path: Path, review_run: Path) -> None:
    model = review_run / "vocabulary.model"
    vocabulary = SentencePieceTokenizer.load(model)
    pieces = write_pieces(tmp_path, vocabulary)
    texts = tmp_path / "texts.toml"
    content = pieces.read_text().replace("pieces = true\n", 'text = "doc"\n')
    texts.write_text(content, encoding="utf-8")
    override = f'vocabulary.file="{model}"'
    train(load_recipe(str(pieces), [*SHORT, override]), tmp_path / "pieces")
    for split in ("train", "dev", "test"):
        path = tmp_path / f"{split}.json"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        lines = [row | {"doc": "".join(row["doc"]).replace("▁", " ").strip()} for row in rows]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    train(load_recipe(str(texts), [*SHORT, override]), tmp_path / "texts")
    first, second = (tmp_path / name / "model.safetensors" for name in ("pieces", "texts"))
    assert first.read_bytes() == second.read_bytes()


def test_pieces_of_another_vocabulary_are_an_error(
    tmp_path: Path, review_run: Path, reading_run: Path
) -> None:
    recipe = write_pieces(tmp_path, SentencePieceTokenizer.load(review_run / "vocabulary.model"))
    override = f'vocabulary.file="{reading_run / "vocabulary.model"}"'
    with raises(InputError, "input.unknown_pieces"):
        train(load_recipe(str(recipe), [*SHORT, override]), tmp_path / "run")


def test_long_and_empty_texts_are_predicted(review_run: Path, reading_run: Path) -> None:
    for run in (review_run, reading_run):
        loaded = jumok.load(run)
        answers = loaded(["", "이 영화 " * 5000, "   "])
        assert [answer.text[:2] for answer in answers] == ["", "이 ", "  "]


def test_evaluation_lists_mistakes_for_the_report(review_run: Path) -> None:
    loaded = jumok.load(review_run)
    test = load_splits(loaded.recipe.data, loaded.recipe.columns).test
    scored = evaluate(loaded, test, "test")
    assert scored.confusion is not None
    n_wrong = sum(map(sum, scored.confusion)) - sum(scored.confusion[i][i] for i in range(2))
    assert len(scored.mistakes) == min(n_wrong, 30)
    probabilities = [mistake.probability for mistake in scored.mistakes]
    assert probabilities == sorted(probabilities, reverse=True)
    with raises(InputError, "run.no_rows"):
        evaluate(loaded, test.slice(0, 0), "test")


def test_examples_list_wrong_outputs_first(reading_run: Path) -> None:
    loaded = jumok.load(reading_run)
    test = load_splits(loaded.recipe.data, loaded.recipe.columns).test
    scored = evaluate(loaded, test, "test")
    assert scored.confusion is None
    wrong = [example.output != example.target for example in scored.examples]
    assert wrong == sorted(wrong, reverse=True)
    assert 0 < len(scored.examples) <= 30


def test_numbers_end_to_end(tmp_path: Path) -> None:
    """The built-in recipe, with separate scores of three held-out splits."""
    overrides = [*SHORT, "data.train_rows=300", "data.dev_rows=20", "data.test_rows=20"]
    overrides += [
        "model.d_model=16",
        "model.n_layers=1",
        "model.d_ff=32",
    ]
    finished = train(load_recipe("numbers", overrides), tmp_path / "run")
    assert finished.results["split"] == "test"
    others = [other["split"] for other in finished.results["others"]]
    assert others == ["test_patterns", "test_sentences"]
    recipe = jumok.load(tmp_path / "run").recipe
    assert len(examples(recipe.data.corpus)) == 5


def test_example_texts_of_builtin_corpora(review_recipe: Path) -> None:
    assert examples(load_recipe(str(review_recipe)).data.corpus) == []
    assert len(examples(load_recipe("nsmc").data.corpus)) == 3


def test_a_vocabulary_without_cls_is_an_error_before_the_run(
    review_recipe: Path, tmp_path: Path
) -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(  # type: ignore[attr-defined]
        sentence_iterator=iter([text for text, _ in reviews(200, 0)]),
        model_writer=model,
        vocab_size=56,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    (tmp_path / "plain.model").write_bytes(model.getvalue())
    overrides = [f"vocabulary.file={tmp_path / 'plain.model'}"]
    with raises(InputError, "text.no_special_piece"):
        train(load_recipe(str(review_recipe), overrides), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_vocabulary_without_sampling_is_an_error_before_the_run(
    review_recipe: Path, tmp_path: Path
) -> None:
    overrides = ["vocabulary.kind=char", "augmentation.subword_sampling=0.5"]
    with raises(InputError, "text.one_segmentation"):
        train(load_recipe(str(review_recipe), overrides), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_finished_run_with_another_recipe_says_how_to_train_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    finished = train(load_recipe(str(write_reviews(tmp_path)), SHORT), run)
    assert resume(run).results == finished.results
    recipe = run / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("steps = 4", "steps = 8", 1), encoding="utf-8")
    with raises(InputError, "run.finished_recipe_changed"):
        resume(run)
    plan = load_recipe(str(recipe), [f'model.init="{run}"'])  # what the message advises
    assert train(plan, tmp_path / "more").results["steps"] == 8


def test_large_files_are_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = load_recipe(str(write_reviews(tmp_path)))
    prepare_training(recipe, torch.device("cpu"))
    assert "reading" not in capsys.readouterr().err
    monkeypatch.setattr("jumok.tasks.runs.setup.LARGE_BYTES", 1)
    prepare_training(recipe, torch.device("cpu"))
    assert capsys.readouterr().err.splitlines()[:2] == [
        "reading train.tsv (0 MB)",
        "training or loading the vocabulary, and tokenizing 120 rows",
    ]
