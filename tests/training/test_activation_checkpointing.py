"""Activation checkpointing: the same gradients from less memory."""

import pytest
import torch
from torch import Tensor

from jumok.models.weights import named_weights
from jumok.nn.layer import TransformerLayer
from jumok.seeding import set_step_seed
from jumok.training.activation_checkpointing import activation_checkpointing
from jumok.training.config import TrainingConfig
from jumok.training.estimate import estimate
from tests.tasks.tiny_jobs import CPU, classification_job, sequence_job
from tests.tiny_runs import readings, reviews

DROPOUTS = {"dropout": 0.2, "attention_dropout": 0.1, "activation_dropout": 0.1, "n_layers": 2}


def gradients(job: object, *, enabled: bool) -> dict[str, Tensor]:
    with activation_checkpointing(job.model, enabled=enabled):
        job.model.train()
        set_step_seed(0, 1)
        job.loss(job.epoch(0)[0]).backward()
    found = {name: p.grad for name, p in named_weights(job.model).items() if p.grad is not None}
    job.model.zero_grad()
    return found


def test_the_gradients_are_the_same_bits() -> None:
    for job in (
        classification_job(reviews(32, 1), DROPOUTS),
        sequence_job(readings(32, 1), DROPOUTS),
    ):
        plain, again = gradients(job, enabled=False), gradients(job, enabled=True)
        assert plain.keys() == again.keys()
        for name, gradient in plain.items():
            assert torch.equal(gradient, again[name]), name


def test_the_layers_are_restored() -> None:
    job = classification_job(reviews(32, 1), DROPOUTS)
    gradients(job, enabled=True)
    layers = [m for m in job.model.modules() if isinstance(m, TransformerLayer)]
    assert len(layers) == 2
    assert not any("forward" in vars(layer) for layer in layers)


@pytest.mark.slow
def test_fewer_activations_are_saved() -> None:
    kept = []
    for recompute in (False, True):
        job = classification_job(reviews(32, 1), DROPOUTS)
        config = TrainingConfig(steps=1, precision="float32", activation_checkpointing=recompute)
        kept.append(estimate(job, config, CPU).activation_bytes)
    assert kept[1] < kept[0] / 2
