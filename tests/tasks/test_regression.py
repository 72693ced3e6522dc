"""Regression: trained on scaled scores, predicted on the scale of the data."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import jumok
from jumok.data.table_files import evaluation_table
from jumok.errors import InputError
from jumok.models import PairClassifier
from jumok.tasks.pipeline.sequence_classification import forward, predict_all
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.recipe.tables import AugmentationConfig, RegressionConfig
from jumok.tasks.runs.evaluate import evaluate
from jumok.tasks.runs.train import train
from jumok.training.trainer import Trainer
from tests.errors import raises
from tests.tasks.tiny_jobs import CPU, regression_job, score_rows
from tests.tiny_runs import REVIEWS

ROWS = score_rows(32, 1)
LEARNING = {
    "learning_rate": 5e-3,
    "schedule": "cosine",
    "warmup_steps": 10,
    "batch_tokens": 1024,
    "precision": "float32",
    "evaluate_every": 1000,
}


def test_targets_are_scaled_to_0_to_1() -> None:
    job = regression_job(ROWS)
    expected = [batch.labels for batch in map(job.epoch(0).__getitem__, range(len(job.epoch(0))))]
    found = sorted(float(score) for part in expected for score in part)
    assert found == pytest.approx(sorted(score / 5 for *_, score in ROWS))


def test_the_loss_is_the_summed_squared_error() -> None:
    job = regression_job(ROWS)
    job.model.eval()
    epoch = job.epoch(0)
    total = sum(job.loss(epoch[index]).item() for index in range(len(epoch)))
    assert job.evaluate().loss == pytest.approx(total / len(ROWS), rel=1e-5)


RANKED = [
    (query, text, 5.0 * (text in query))
    for query in ("재미있어요 최고", "별로예요 지루해요", "음악이 좋았어요")
    for text in ("최고", "지루해요", "좋았어요")[: 2 + ("음악" in query)]
]


def test_the_ranking_loss_is_the_cross_entropy_of_the_best_text_of_each_query() -> None:
    job = regression_job(RANKED, loss="ranking", batch_tokens=64)
    job.model.eval()
    epoch, total, queries = job.epoch(0), 0.0, 0
    for index in range(len(epoch)):
        total += job.loss(epoch[index]).item()
        queries += epoch[index].n_targets
    outputs = predict_all(job.model, job.ids, job.tokenizer, CPU)[:, 0]
    expected = -sum(
        outputs[best] - outputs[rows].logsumexp(0)
        for rows, best in (([0, 1], 0), ([2, 3], 3), ([4, 5, 6], 6))
    )
    assert queries == 3
    assert total == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize(
    "overrides",
    [
        ["task=regression", "data.score=c", "model.init=ko-small"],  # single texts
        ["task=similarity", "data.pair=b"],
        ["task=regression", "data.pair=b", "data.score=c", "augmentation.token_dropout=0.1"],
    ],
)
def test_ranking_needs_plain_pairs(tmp_path: Path, overrides: list[str]) -> None:
    path = tmp_path / "own.toml"
    path.write_text('task = "regression"\n[training]\nmethod = "fine-tune"\n', encoding="utf-8")
    with raises(InputError, "recipe.ranking_of_pairs"):
        load_recipe(str(path), [*overrides, "regression.loss=ranking"])


def test_rdrop_compares_both_views() -> None:
    assert not regression_job(ROWS, AugmentationConfig(token_dropout=0.5)).epoch(0)[0].two_views
    job = regression_job(ROWS, AugmentationConfig(token_dropout=0.5, rdrop_alpha=3.0))
    job.model.eval()
    batch = job.epoch(0)[0]
    assert batch.two_views
    n = len(batch.labels) // 2
    assert batch.labels[:n].tolist() == batch.labels[n:].tolist()
    answered = forward(job.model, batch.texts, job.tokenizer)[:, 0]
    plain = F.mse_loss(answered, batch.labels, reduction="sum")
    apart = F.mse_loss(answered[:n], answered[n:], reduction="sum")
    term = 3.0 * apart
    assert term > 1e-4 * plain  # ten times what rounding may do to the sum
    torch.testing.assert_close(job.loss(batch), plain + term, rtol=1e-5, atol=0)


@pytest.mark.slow
def test_a_regression_model_overfits(tmp_path: Path) -> None:
    job = regression_job(ROWS, steps=100, **LEARNING)
    trainer = Trainer(job, job.recipe.training, tmp_path, seed=0, device=CPU, metadata={})
    trainer.fit()
    job.model.eval()
    dev = job.evaluate()
    assert dev.loss < 0.02
    assert (dev.metric, dev.score > 0.95) == ("pearson", True)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny run: the similarity of two reviews."""
    folder = tmp_path_factory.mktemp("scores")
    for seed, (split, n) in enumerate([("train", 120), ("dev", 30), ("test", 40)]):
        rows = [f"{one}\t{two}\t{score}" for one, two, score in score_rows(n, seed)]
        lines = ["text\tpair\tscore", *rows]
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    path = folder / "recipe.toml"
    path.write_text(REVIEWS.format(folder=folder), encoding="utf-8")
    overrides = ["task=regression", "metric=spearman", "data.pair=pair", "model.n_segments=2"]
    overrides += ["model.max_length=24", "model.pooling=compare", "regression.highest=5.0"]
    train(load_recipe(str(path), overrides), folder / "run")
    return folder / "run"


def test_a_run_predicts_on_the_scale_of_the_data(run: Path) -> None:
    loaded = jumok.load(run)
    table = evaluation_table(run.parent / "test.tsv", loaded.recipe.data, ("text", "pair", "score"))
    scores = evaluate(loaded, table, "test").scores
    assert list(scores) == ["task", "split", "n", "pearson", "spearman", "mse", "kernel"]
    assert (scores["task"], scores["split"], scores["n"]) == ("regression", "test", 40)
    rows = score_rows(40, 2)
    answers = loaded([f"{one}\t{two}" for one, two, _ in rows])
    predicted, expected = [answer.score for answer in answers], [row[2] for row in rows]
    assert scores["mse"] == pytest.approx(np.mean((np.array(predicted) - expected) ** 2), rel=1e-4)
    assert scores["pearson"] == pytest.approx(np.corrcoef(predicted, expected)[0, 1], abs=1e-4)
    assert answers[0].display == f"{predicted[0]:.4f}"
    assert loaded("\t").text == "\t"


def test_an_exported_model_predicts_on_the_scale_of_the_data(run: Path) -> None:
    loaded = jumok.load(run, device="cpu")
    assert isinstance(loaded.model, PairClassifier)
    assert loaded.model.similarity.weight.any()
    alone = loaded.task.for_export(loaded)
    assert alone.recipe.regression == RegressionConfig()
    texts = [f"{one}\t{two}" for one, two, _ in score_rows(10, 2)]
    expected = [answer.score for answer in loaded(texts)]
    assert [answer.score for answer in alone(texts)] == pytest.approx(expected, abs=1e-4)


def test_an_invalid_range() -> None:
    with raises(InputError, "recipe.regression_range"):
        RegressionConfig(lowest=5.0)


def test_regression_of_single_texts() -> None:
    recipe = load_recipe("nsmc", ["task=regression", 'data={"train" = "my.tsv"}'])

    assert recipe.columns == ("text", "score")
