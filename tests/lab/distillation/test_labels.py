"""Distillation: soft labels of finished runs, on labelled and on added texts."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import jumok
from jumok.data.load import load_splits
from jumok.errors import InputError
from jumok.inference.optimization import optimize
from jumok.lab.distillation.labels import DistillationJob, distillation_loss, soft_labels
from jumok.tasks.inputs.batches import IGNORE_INDEX
from jumok.tasks.recipe.recipe import Recipe, load_recipe
from jumok.tasks.runs.setup import prepare_training
from tests.tasks.tiny_jobs import CPU
from tests.tiny_runs import reviews


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory, review_recipe: Path) -> Path:
    """Texts without a label; the first ones are those of the test split."""
    test = load_splits(load_recipe(str(review_recipe)).data).test.column("text")
    texts = [*test[:5], *(f"{text} 정말" for text, _ in reviews(60, 9))]
    path = tmp_path_factory.mktemp("added") / "added.txt"
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def student(review_recipe: Path, review_run: Path, *more: str) -> Recipe:
    words = [f'distillation.teachers=["{review_run}"]', "training.steps=8", *more]
    return load_recipe(str(review_recipe), [*words, "training.evaluate_every=4"])


def test_the_loss_is_the_divergence_of_torch() -> None:
    torch.manual_seed(0)
    logits, soft = torch.randn(5, 3), torch.randn(5, 3).softmax(-1)
    expected = 4 * F.kl_div((logits / 2).log_softmax(-1), soft, reduction="sum")
    torch.testing.assert_close(distillation_loss(logits, soft, 2.0), expected)
    certain = torch.tensor([[1.0, 0.0]])  # log 0 counts nothing
    torch.testing.assert_close(
        distillation_loss(torch.tensor([[2.0, 1.0]]), certain, 1.0),
        F.cross_entropy(torch.tensor([[2.0, 1.0]]), torch.tensor([0])),
    )


def test_added_texts_have_soft_labels_only(
    review_recipe: Path, review_run: Path, added: Path
) -> None:
    plan = student(review_recipe, review_run, f'distillation.texts="{added}"')
    job = prepare_training(plan, CPU).job
    assert isinstance(job, DistillationJob)
    n_train = len(load_splits(plan.data).train)
    labels = job.train.labels
    assert (labels[:n_train] != IGNORE_INDEX).all()
    assert (labels[n_train:] == IGNORE_INDEX).all()
    texts = list(job.texts.texts)
    known = {
        text for table in load_splits(plan.data).tables.values() for text in table.column("text")
    }
    assert texts[n_train:] == [  # all rows of the file that are not in a split
        text for text in added.read_text(encoding="utf-8").splitlines() if text not in known
    ]
    assert not set(texts[n_train:]) & set(load_splits(plan.data).test.column("text"))
    teacher = jumok.load(review_run, device="cpu")
    output = teacher.with_models(lambda model: optimize(model, "int8"))(texts[-1])
    expected = torch.tensor([output.probabilities[label] for label in teacher.labels])  # type: ignore[union-attr]
    torch.testing.assert_close(job.soft_labels[-1], expected, atol=1e-6, rtol=0)
    epoch = job.epoch(0)
    assert sum(epoch[i].n_targets for i in range(len(epoch))) == len(texts)
    assert all(job.loss(epoch[i]).isfinite() for i in range(len(epoch)))
    limited = student(
        review_recipe, review_run, f'distillation.texts="{added}"', "distillation.rows=3"
    )
    job = prepare_training(limited, CPU).job
    assert isinstance(job, DistillationJob)
    assert len(job.texts.texts) == n_train + 3


def test_teachers_are_averaged_at_the_temperature(review_recipe: Path, review_run: Path) -> None:
    plan = student(review_recipe, review_run, "distillation.temperature=2.0")
    twice = student(
        review_recipe,
        review_run,
        f'distillation.teachers=["{review_run}", "{review_run}"]',
        "distillation.temperature=2.0",
    )
    job = prepare_training(plan, CPU).job
    assert isinstance(job, DistillationJob)
    labels = jumok.load(review_run).labels
    one, two = (soft_labels(p.distillation, job.texts, labels, CPU) for p in (plan, twice))
    torch.testing.assert_close(one, two)
    torch.testing.assert_close(one.sum(-1), torch.ones(len(one)))
    hard = soft_labels(student(review_recipe, review_run).distillation, job.texts, labels, CPU)
    assert one.amax(-1).mean() < hard.amax(-1).mean()


def test_wrong_recipes(review_recipe: Path, review_run: Path, reading_run: Path) -> None:
    def raises(match: str, *words: str) -> None:
        with pytest.raises(InputError, match=match):
            prepare_training(student(review_recipe, review_run, *words), CPU)

    raises("temperature must be positive and finite", "distillation.temperature=0.0")
    raises("distillation.rows must be", "distillation.rows=-1")
    raises("both name the texts", "distillation.corpus=nsmc-text", "distillation.texts=a.txt")
    raises(
        "teachers must name at least one run", "distillation.teachers=[]", "distillation.texts=a"
    )
    raises("must be runs with the labels", f'distillation.teachers=["{reading_run}"]')
    raises(
        "distillation.texts must be .* with data.pieces",
        "distillation.texts=a.txt",
        "data.pieces=true",
    )
    with pytest.raises(InputError, match=r"\[distillation\] must be left out for the task"):
        load_recipe("numbers", [f'distillation.teachers=["{review_run}"]'])
