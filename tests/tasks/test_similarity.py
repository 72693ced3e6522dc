"""Similarity: vectors trained on scores, on labels and on plain pairs; the same vectors encoded."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import jumok
from jumok.errors import InputError
from jumok.export.export_run import export
from jumok.formats.onnx_session import exported_logits
from jumok.models import SentenceEncoder, TransformerConfig
from jumok.tasks.recipe.recipe import Recipe, change_recipe, load_recipe
from jumok.tasks.runs.compare import compare
from jumok.tasks.runs.evaluate import evaluate, evaluation_tables
from jumok.tasks.runs.setup import prepare_training
from jumok.tasks.runs.train import train
from jumok.tasks.similarity import SimilarityJob, retrieval
from jumok.viewer.example_texts import example_texts
from tests.cli.commands import call
from tests.combinations import slow
from tests.errors import raises
from tests.tasks.tiny_jobs import CPU, score_rows

RECIPE = """
task = "similarity"

[data]
train = "{folder}/pairs.tsv"
dev = "{folder}/pairs.tsv"
test = "{folder}/pairs.tsv"
pair = "pair"
{supervision}

[vocabulary]
size = 66

[model]
d_model = 32
n_heads = 2
d_ff = 64
n_layers = 1
dropout = 0.0
max_length = 24
{model}

[training]
steps = 60
batch_tokens = 512
learning_rate = 0.01
warmup_steps = 5
evaluate_every = 30
precision = "float32"
"""
SCORES = 'score = "score"\n[regression]\nlowest = 1.0\nhighest = 5.0'
LABELS = 'label = "label"\n[similarity]\npositive = "same"\nnegative = "different"'


def _recipe(folder: Path, supervision: str = "", model: str = "") -> Recipe:
    rows = score_rows(48, 1)
    lines = ["text\tpair\tscore\tlabel"]
    lines += [
        f"{one}\t{two}\t{score}\t{'same' if score == 5 else 'different'}"
        for one, two, score in rows
    ]
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    path = folder / "similar.toml"
    text = RECIPE.format(folder=folder, supervision=supervision, model=model)
    path.write_text(text, encoding="utf-8")
    return load_recipe(str(path))


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was trained on scores of pairs."""
    folder = tmp_path_factory.mktemp("scored")
    train(_recipe(folder, SCORES), folder / "run")
    return folder / "run"


def test_scores_are_learned_as_cosines(scored: Path) -> None:
    results = json.loads((scored / "results.json").read_text(encoding="utf-8"))
    assert results["dev"]["metric"] == "spearman"
    assert results["pearson"] > 0.9
    assert isinstance(jumok.load(scored).model, SentenceEncoder)


def test_scores_that_no_cosine_reaches_are_refused(tmp_path: Path) -> None:
    """With the range 0 to 1, scores up to 5 pulled all vectors together."""
    with raises(InputError, "task.score_out_of_range"):
        train(_recipe(tmp_path, 'score = "score"'), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_score_is_the_cosine_of_encoded_texts(scored: Path) -> None:
    model = jumok.load(scored)
    texts = ["이 영화 재미있어요", "연기가 지루해요", "결말이 좋았어요"]
    vectors = model.encode(texts)
    assert np.linalg.norm(vectors, axis=-1) == pytest.approx(np.ones(3), abs=1e-6)
    lines = [f"{texts[0]}\t{texts[1]}", f"{texts[0]}\t{texts[2]}"]
    found = [output.score for output in model(lines)]  # type: ignore[attr-defined]
    assert found == pytest.approx([vectors[0] @ vectors[1], vectors[0] @ vectors[2]], abs=1e-6)


def test_pooling_first_is_that_of_encode(tmp_path: Path) -> None:
    recipe = _recipe(tmp_path, SCORES, 'pooling = "first"')
    train(change_recipe(recipe, ["training.steps=2"]), tmp_path / "run")
    model = jumok.load(tmp_path / "run")
    (found,) = model(["좋았어요\t별로예요"])
    one, two = model.encode(["좋았어요", "별로예요"])
    assert found.score == pytest.approx(float(one @ two), abs=1e-6)  # type: ignore[attr-defined]
    assert model.encode("좋았어요", pooling="mean") != pytest.approx(one, abs=1e-3)


@pytest.mark.parametrize("supervision", [slow(""), LABELS])
def test_pairs_are_learned_by_retrieval(tmp_path: Path, supervision: str) -> None:
    train(_recipe(tmp_path, supervision), tmp_path / "run")
    results = json.loads((tmp_path / "run" / "results.json").read_text(encoding="utf-8"))
    assert results["dev"]["metric"] == "accuracy"
    lines = (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    losses = [row["loss"] for row in map(json.loads, lines) if row["kind"] == "dev"]
    assert losses[-1] < losses[0]
    assert 0 < results["accuracy"] <= 1


def _plain_texts(folder: Path) -> list[str]:
    """Overrides that train on plain texts: 12 new ones, one of them twice, and one of dev."""
    endings = ("재미있어요 정말 ㅋㅋ ㅋㅋ", "최고예요 너무 정말", "최악이에요 너무 너무")
    new = [
        f"{word} {end}" for word in ("화면이", "음악이", "연기가", "이야기가") for end in endings
    ]
    texts = [new[0], score_rows(48, 1)[0][1], *new]
    (folder / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    return [f'similarity.texts="{folder / "texts.txt"}"', "model.dropout=0.2"]


def test_plain_texts_are_pairs_with_themselves(tmp_path: Path) -> None:
    recipe = change_recipe(_recipe(tmp_path, SCORES), _plain_texts(tmp_path))
    job = prepare_training(recipe, CPU).job
    assert isinstance(job, SimilarityJob)
    assert len(job.train.targets) == 12  # distinct, and without the text of dev
    assert job.dev.has_scores
    (batch,) = (job.epoch(0)[i] for i in range(len(job.epoch(0))))
    torch.manual_seed(0)
    u, v = (
        job.model.train()(texts.input_ids, texts.attention_mask) for texts in (batch.first,) * 2
    )
    assert not torch.allclose(u, v)  # two dropout masks
    assert job.loss(batch).item() > 0
    limited = change_recipe(recipe, ["similarity.rows=3"])
    limited_job = prepare_training(limited, CPU).job
    assert isinstance(limited_job, SimilarityJob)
    assert len(limited_job.train.targets) == 2


def test_training_on_plain_texts_is_selected_by_scores(tmp_path: Path) -> None:
    train(change_recipe(_recipe(tmp_path, SCORES), _plain_texts(tmp_path)), tmp_path / "run")
    results = json.loads((tmp_path / "run" / "results.json").read_text(encoding="utf-8"))
    assert results["dev"]["metric"] == "spearman"
    lines = (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    losses = [row["loss"] for row in map(json.loads, lines) if row["kind"] == "train"]
    assert losses[-1] < losses[0]


def test_other_copies_of_a_second_text_are_not_candidates(tmp_path: Path) -> None:
    recipe = _recipe(tmp_path)
    lines = "text\tpair\n이 영화 좋아요\t최고예요\n음악이 좋아요\t최고예요\n"
    (tmp_path / "pairs.tsv").write_text(lines, encoding="utf-8")
    job = prepare_training(change_recipe(recipe, ["vocabulary.size=27"]), CPU).job
    epoch = job.epoch(0)
    assert [epoch[i].n_targets for i in range(len(epoch))] == [2]
    assert job.loss(epoch[0]).item() == pytest.approx(0.0, abs=1e-6)


def test_runs_without_scores_are_evaluated_instead_of_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = change_recipe(_recipe(tmp_path), ["training.steps=1"])
    train(recipe, tmp_path / "run")
    done = call(capsys, "compare", tmp_path / "run", tmp_path / "run")
    assert done.code == 2
    assert "need scores to compare rows, got pairs without; use jumok evaluate" in done.err
    assert call(capsys, "evaluate", tmp_path / "run", "--json").rows[0]["task"] == "similarity"


def test_retrieval_counts_the_nearest_second_text(tmp_path: Path) -> None:
    u = torch.eye(3)
    v = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.8, 0.6]])
    recipe = _recipe(tmp_path)
    every, positive = np.ones(3, np.float32), np.array([1, 0, 1], np.float32)
    assert retrieval(u, v, every, recipe)[1] == 1.0
    assert retrieval(u, v[[2, 1, 0]], every, recipe)[1] == pytest.approx(1 / 3)
    assert retrieval(u, v[[2, 1, 0]], positive, recipe)[1] == 0.0  # both positive pairs are wrong
    loss = retrieval(u[:1], v, every[:1], recipe)[0]
    expected = torch.nn.functional.cross_entropy(u[:1] @ v.T / 0.05, torch.tensor([0]))
    assert loss == pytest.approx(expected.item(), rel=1e-5)


def test_predict_evaluate_and_compare(scored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = call(capsys, "predict", scored, "--json", "좋았어요\t최고예요 ㅋㅋ")
    assert [set(row) for row in done.rows] == [{"text", "score"}]
    pipeline = jumok.load(scored)
    table = evaluation_tables(pipeline.recipe)["test"]
    scores = evaluate(pipeline, table, "test").scores
    assert {"task", "pearson", "spearman", "n", "split"} <= set(scores)
    itself = compare([pipeline], [pipeline], table)
    assert not itself.different
    assert itself.n == len(table)


def test_a_text_without_a_pair_is_refused(scored: Path) -> None:
    with raises(InputError, "input.not_a_pair"):
        jumok.load(scored)("혼자")


@pytest.mark.parametrize(
    ("supervision", "model", "message"),
    [
        (SCORES, 'pooling = "compare"\nn_segments = 2', "task.pooling_of_vectors"),
        ('label = "label"', "", "task.no_positive_label"),
        (f'score = "score"\n{LABELS}', "", "task.two_measures_of_similarity"),
        ('[similarity]\nnegative = "different"', "", "recipe.negative_without_positive"),
        ("[similarity]\ntemperature = 0.0", "", "config.out_of_range"),
        (
            '[similarity]\ntexts = "a.txt"',
            "",
            "task.no_dropout",
        ),
        ('[similarity]\ntexts = "a"\ncorpus = "nsmc"', "", "recipe.corpus_and_texts"),
        ("[similarity]\nrows = -1", "", "config.out_of_range"),
    ],
)
def test_settings_that_conflict(tmp_path: Path, supervision: str, model: str, message: str) -> None:
    with raises(InputError, message):
        _recipe(tmp_path, supervision, model)


def test_single_texts_and_metrics_of_other_data_are_refused(tmp_path: Path) -> None:
    _recipe(tmp_path, SCORES)
    path = str(tmp_path / "similar.toml")
    with raises(InputError, "task.no_pairs"):
        load_recipe(path, ["data.pair="])
    with raises(InputError, "task.metric_of_pairs"):
        load_recipe(path, ["metric=accuracy"])
    with pytest.raises(InputError, match="must be left out for the task classification"):
        load_recipe(path, ["task=classification", "data.score=", "similarity.positive=same"])


def test_an_unknown_positive_label_lists_the_labels(tmp_path: Path) -> None:
    recipe = _recipe(tmp_path, LABELS.replace('"same"', '"equal"'))
    with raises(InputError, "task.unknown_positive_label"):
        train(recipe, tmp_path / "run")


def test_unit_vectors_ignore_padding() -> None:
    torch.manual_seed(0)
    config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    model = SentenceEncoder(config).eval()
    plain = model(torch.tensor([[1, 2, 3]]))
    mask = torch.tensor([[True, True, True, False]])
    torch.testing.assert_close(model(torch.tensor([[1, 2, 3, 0]]), mask), plain)


def test_the_page_shows_single_texts(scored: Path) -> None:
    model = jumok.load(scored)
    assert not any("\t" in text for text in example_texts(model))
    trace = jumok.trace(model, "좋았어요")
    assert trace.weights("encoder", layer=0).shape[0] == 2


@pytest.mark.slow
def test_vectors_are_exported_to_onnx(scored: Path, tmp_path: Path) -> None:
    export(scored, "onnx", tmp_path / "onnx")
    session = exported_logits(tmp_path / "onnx")
    model = jumok.load(scored)
    ids = torch.tensor([[model.vocabulary.cls_id, *model.vocabulary.encode("좋았어요")]])
    (found,) = session(ids, torch.ones_like(ids))
    assert found.numpy() == pytest.approx(model.encode("좋았어요"), abs=1e-5)
