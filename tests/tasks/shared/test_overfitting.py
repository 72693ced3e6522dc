"""Each kind of model overfits 32 examples, the minimum for any training to work."""

from pathlib import Path

import pytest

from jumok.tasks.classification import ClassificationJob
from jumok.tasks.sequence_to_sequence import Seq2SeqJob
from jumok.training.trainer import Trainer
from tests.combinations import slow
from tests.tasks.tiny_jobs import CPU, classification_job, sequence_job
from tests.tiny_runs import readings, reviews

LEARNING = {
    "learning_rate": 5e-3,
    "schedule": "cosine",
    "warmup_steps": 10,
    "batch_tokens": 1024,
    "precision": "float32",
    "evaluate_every": 1000,  # at the end alone: the first perfect score is not the lowest loss
}


def by_heart(job: ClassificationJob | Seq2SeqJob, folder: Path) -> float:
    """The mean loss on the training examples after the training."""
    trainer = Trainer(job, job.recipe.training, folder, seed=0, device=CPU, metadata={})
    trainer.fit()
    job.model.eval()
    return job.evaluate().loss


@pytest.mark.parametrize("pooling", ["first", slow("mean"), slow("max")])
def test_a_classifier_overfits(tmp_path: Path, pooling: str) -> None:
    job = classification_job(reviews(32, 1), {"pooling": pooling}, steps=100, **LEARNING)
    assert by_heart(job, tmp_path) < 0.05
    assert job.evaluate().score == 1.0


def test_an_encoder_decoder_classifier_overfits(tmp_path: Path) -> None:
    job = classification_job(reviews(32, 1), {"kind": "encoder_decoder"}, steps=100, **LEARNING)
    assert by_heart(job, tmp_path) < 0.05
    assert job.evaluate().score == 1.0


@pytest.mark.slow
def test_a_seq2seq_model_overfits(tmp_path: Path) -> None:
    job = sequence_job(readings(32, 1), steps=250, **LEARNING)
    assert by_heart(job, tmp_path) < 0.05
    assert job.evaluate().score == 1.0


def test_a_bfloat16_model_overfits(tmp_path: Path) -> None:
    learning = LEARNING | {"precision": "bfloat16", "steps": 100}
    job = classification_job(reviews(32, 1), **learning)
    assert by_heart(job, tmp_path) < 0.05
