"""Distillation of vectors: the teacher's geometry in the width of the student, on plain texts."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import jumok
from jumok.data.load import load_splits
from jumok.data.splits import Splits
from jumok.errors import InputError
from jumok.lab.distillation.projection import Projection
from jumok.lab.distillation.vectors import (
    PAIRS,
    VectorDistillationJob,
    correlation_loss,
    distilled_texts,
    scored_pairs,
)
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.pipeline.text_vectors import Vectors
from jumok.tasks.recipe.recipe import Recipe, load_recipe
from jumok.tasks.recipe.tables import RegressionConfig
from jumok.tasks.runs.setup import prepare_training
from jumok.tasks.runs.train import resume, train
from tests.tasks.tiny_jobs import CPU, recipe, review_vocabulary, score_rows, splits
from tests.tiny_runs import reviews

RECIPE = """
task = "similarity"
metric = "spearman"

[data]
train = "{folder}/pairs.tsv"
dev = "{folder}/dev.tsv"
pair = "pair"
score = "score"

[regression]
lowest = 1.0
highest = 5.0

[distillation]
teachers = ["{teacher}"]
texts = "{folder}/texts.txt"

[vocabulary]
size = 66

[model]
d_model = 32
n_heads = 2
d_ff = 64
n_layers = 1
dropout = 0.0
max_length = 24

[training]
steps = 40
batch_tokens = 512
learning_rate = 0.01
warmup_steps = 5
evaluate_every = 20
precision = "float32"
"""


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def student(folder: Path, teacher: Path, *overrides: str) -> Recipe:
    for name, seed, end in (("pairs", 1, ""), ("dev", 1, " 진짜")):  # no text is in both
        rows = [f"{one}{end}\t{two}{end}\t{score}" for one, two, score in score_rows(24, seed)]
        (folder / f"{name}.tsv").write_text(
            "\n".join(["text\tpair\tscore", *rows]) + "\n", encoding="utf-8"
        )
    texts = [score_rows(24, 1)[0][0], *(text for text, _ in reviews(40, 9))]
    (folder / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    path = folder / "student.toml"
    path.write_text(RECIPE.format(folder=folder, teacher=teacher), encoding="utf-8")
    return load_recipe(str(path), overrides)


def test_the_projection_is_half_way_to_whitening() -> None:
    rng = np.random.default_rng(0)
    vectors = (rng.normal(size=(2_000, 3)) @ rng.normal(size=(3, 8)) + 5).astype(np.float32)
    centered = vectors - vectors.mean(0)
    for width in (3, 8, 12):  # of rank 3
        projection = Projection.fit(vectors, width, width)
        raw = centered @ projection.components
        spread = np.cov(raw.T)  # diagonal, with the square roots of the variances
        variances = np.sort(np.linalg.eigvalsh(np.cov(centered.T)))[::-1][:3]
        np.testing.assert_allclose(spread[:3, :3], np.diag(variances**0.5), rtol=0.01, atol=1e-3)
        assert not spread[3:].any()
        found = projection(vectors)
        np.testing.assert_allclose(np.linalg.norm(found, axis=-1), 1, atol=1e-5)
        np.testing.assert_allclose(found * np.linalg.norm(raw, axis=-1)[:, None], raw, atol=1e-4)


def test_texts_of_pairs_and_added_ones_have_the_vectors_of_the_teacher(
    tmp_path: Path, review_run: Path
) -> None:
    recipe = student(tmp_path, review_run)
    job = prepare_training(recipe, CPU).job
    assert isinstance(job, VectorDistillationJob)
    pairs = score_rows(24, 1)
    known = [*(one for one, _, _ in pairs), *(two for _, two, _ in pairs)]
    texts = list(dict.fromkeys([*known, *(text for text, _ in reviews(40, 9))]))
    assert len(job.ids) == len(texts)
    teacher = jumok.load(review_run, device="cpu")
    (vectors,) = job.teachers
    exact = teacher.encode(texts, normalize=True)
    assert (vectors * exact).sum(-1).min() > 0.99  # int8
    epoch = job.epoch(0)
    batches = [epoch[i] for i in range(len(epoch))]
    assert sum(batch.n_targets for batch in batches) == len(texts)
    assert sum(batch.tokens for batch in batches) == len(job.ids.ids)
    for batch in batches:
        torch.testing.assert_close(batch.vectors.norm(dim=-1), torch.ones(batch.n_targets))
        u = job.model(batch.texts.input_ids, batch.texts.attention_mask)
        torch.testing.assert_close(job.loss(batch), batch.n_targets - (u * batch.vectors).sum())


def test_texts_that_repeat_a_dev_text_are_left_out(tmp_path: Path, review_run: Path) -> None:
    recipe = student(tmp_path, review_run)
    pairs = score_rows(24, 1)
    one, two, _ = pairs[0]
    with (tmp_path / "dev.tsv").open("a", encoding="utf-8") as file:
        file.write(f"{one}!\t{two}\t5.0\n")  # punctuation does not count
    texts = distilled_texts(recipe, load_splits(recipe.data, recipe.columns))
    assert not {one, two} & set(texts)
    assert {text for pair in pairs for text in pair[:2]} - {one, two} < set(texts)


def test_the_vectors_of_the_teacher_are_learned(tmp_path: Path, review_run: Path) -> None:
    train(student(tmp_path, review_run), tmp_path / "run")
    lines = (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    losses = [row["loss"] for row in map(json.loads, lines) if row["kind"] == "train"]
    assert losses[-1] < 0.5 * losses[0]
    texts = [text for text, _ in reviews(40, 9)]
    teacher = jumok.load(review_run, device="cpu").encode(texts, normalize=True)
    teacher -= teacher.mean(0)
    ours = jumok.load(tmp_path / "run", device="cpu").encode(texts)
    found = np.corrcoef((ours @ ours.T).ravel(), (teacher @ teacher.T).ravel())[0, 1]
    assert found > 0.5


PIECES = (
    "distillation.token_vectors=true",
    "model.norm_first=true",
    'model.positions="rotary"',
    "model.scale_embedding=false",
)


def test_token_vectors_are_a_start_near_the_teacher(tmp_path: Path, review_run: Path) -> None:
    job = prepare_training(student(tmp_path, review_run, *PIECES), CPU).job
    assert isinstance(job, VectorDistillationJob)

    def loss() -> float:
        batches = [job.epoch(0)[i] for i in range(len(job.epoch(0)))]
        with torch.no_grad():
            return sum(float(job.loss(each)) for each in batches) / len(job.ids)

    before = loss()
    job.initialize()
    assert loss() < before - 0.3
    (batch, *_) = (job.epoch(0)[i] for i in range(1))
    assert not batch.vectors[:, -2:].any()


ALONE = (
    "distillation.token_vectors=true",
    "model.n_layers=0",
    'model.positions="none"',
    "model.scale_embedding=false",
)


def test_an_encoder_without_layers_learns_them_too(tmp_path: Path, review_run: Path) -> None:
    relational = (*ALONE, "distillation.relational=5.0")
    job = prepare_training(student(tmp_path, review_run, *relational), CPU).job
    assert isinstance(job, VectorDistillationJob)
    assert job.width == job.recipe.model.d_model
    batch = job.epoch(0)[0]
    u, v = job.model(batch.texts.input_ids, batch.texts.attention_mask), batch.vectors
    cosine = (1 - (u * v).sum(-1)).sum()
    between = ((u @ u.T - v @ v.T) ** 2).mean(-1).sum()
    torch.testing.assert_close(job.loss(batch), cosine + 5 * between)
    before = job.loss(batch).item()
    job.initialize()
    assert job.loss(batch).item() < 0.8 * before
    train(student(tmp_path, review_run, *relational), tmp_path / "run")
    lines = (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    losses = [row["loss"] for row in map(json.loads, lines) if row["kind"] == "train"]
    assert losses[-1] < 0.5 * losses[0]


def test_scores_of_the_training_pairs_are_learned_too(tmp_path: Path, review_run: Path) -> None:
    job = prepare_training(student(tmp_path, review_run, "distillation.scores=0.5"), CPU).job
    assert isinstance(job, VectorDistillationJob)
    plain = prepare_training(student(tmp_path, review_run), CPU).job
    assert isinstance(plain, VectorDistillationJob)
    batch, without = job.epoch(0)[0], plain.epoch(0)[0]
    assert without.pairs is None
    assert batch.pairs is not None
    assert len(batch.pairs.targets) == PAIRS
    torch.testing.assert_close(batch.pairs.targets, job.epoch(0)[0].pairs.targets)  # no state
    plain.model.load_state_dict(job.model.state_dict())
    expected = correlation_loss(job.pair_cosines(batch.pairs), batch.pairs.targets)
    torch.testing.assert_close(
        job.loss(batch), plain.loss(without) + 0.5 * len(batch.vectors) * expected
    )


def test_pairs_of_a_sentence_of_another_split_are_left_out() -> None:
    rows = [("가 나", "다 라", 5.0), ("마 바", "가 하", 1.0), ("사 아", "자 차", 3.0)]
    columns = ("text", "pair", "score")
    found = splits(rows, columns)
    tables = {"train": found["train"], "dev": splits([("가  나!", "타 파", 2.0)], columns)["train"]}
    plan = recipe("similarity", {"n_segments": 0})
    plan = dataclasses.replace(plan, regression=RegressionConfig(lowest=0.0, highest=5.0))
    pairs = scored_pairs(Splits(tables, ()), review_vocabulary(), plan)
    np.testing.assert_allclose(pairs.targets, [0.2, 0.6])
    assert len(pairs.first) == len(pairs.second) == 2


def test_without_token_vectors_nothing_is_initialized(tmp_path: Path, review_run: Path) -> None:
    job = prepare_training(student(tmp_path, review_run), CPU).job
    before = [weight.clone() for weight in job.model.parameters()]
    job.initialize()
    assert all(map(torch.equal, before, job.model.parameters()))


def test_resuming_is_bit_identical_and_encodes_nothing_again(
    tmp_path: Path, review_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = student(tmp_path, review_run, "training.steps=8", "training.evaluate_every=4")
    train(recipe, tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "half")
    for name in ("results.json", "model.safetensors", "config.json"):
        (tmp_path / "half" / name).unlink()
    shutil.rmtree(tmp_path / "half" / "checkpoints" / "step-8")

    encode = Pipeline.encode

    def one_text(self: Pipeline, texts: str | list[str], **words: Any) -> Vectors:
        assert len(texts) == 1, "encoded again"  # one text shows the width
        return encode(self, texts, **words)

    monkeypatch.setattr(Pipeline, "encode", one_text)
    resume(tmp_path / "half")
    first, second = (tmp_path / name / "model.safetensors" for name in ("whole", "half"))
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "distillation.temperature=2.0",
            "distillation.temperature must be 1.0 for the task similarity",
        ),
        ("distillation.weight=0.5", "distillation.weight must be 1.0 for the task similarity"),
        ("distillation.token_vectors=true", "needs a new model with norm_first = true"),
        ("distillation.relational=-1.0", "distillation.relational must be"),
        ('similarity.texts="a.txt"', "must be .* with distillation.teachers"),
    ],
)
def test_keys_that_are_not_read_are_refused(
    tmp_path: Path, review_run: Path, override: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        student(tmp_path, review_run, override, "model.dropout=0.1")


def test_token_vectors_need_teachers(tmp_path: Path, review_run: Path) -> None:
    with pytest.raises(InputError, match="token_vectors must be false with no"):
        student(tmp_path, review_run, *PIECES, "distillation.teachers=[]", 'distillation.texts=""')
