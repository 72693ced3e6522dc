"""The estimated memory is what autograd saves; the estimated steps are those of a training."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from jumok.models.weights import named_weights
from jumok.training.config import TrainingConfig
from jumok.training.estimate import estimate
from jumok.training.trainer import Trainer
from tests.training.toy_job import Circle, points

CPU = torch.device("cpu")
CONFIG = TrainingConfig(epochs=3, schedule="constant", warmup_steps=0, precision="float32")


def test_every_byte_is_counted() -> None:
    """Circle: 2 x 16 + 16 + 16 x 2 + 2 weights; a batch saves its points, the outputs of the first
    layer, of ReLU and of dropout, and the log-probabilities; classes are int64."""
    job = Circle(points(64, 0), batch=8, dropout=0.0)
    before = {name: p.detach().clone() for name, p in named_weights(job.model).items()}
    found = estimate(job, CONFIG, CPU)
    assert found.parameters == 82
    assert found.weight_bytes == found.gradient_bytes == 4 * 82
    assert found.optimizer_bytes == 2 * 4 * 82
    hidden, logits, sides, ins = 4 * 8 * 16, 4 * 8 * 2, 8 * 8, 4 * 8 * 2
    least, most = ins + hidden + logits + sides, ins + 2 * hidden + 4 * logits + sides + 64
    assert least <= found.activation_bytes <= most
    assert found.copy_bytes == 3 * 4 * 82
    assert found.bytes == 28 * 82 + found.activation_bytes
    assert found.tokens_per_epoch == 64
    for name, parameter in named_weights(job.model).items():
        assert torch.equal(parameter, before[name])  # the learning rate is 0


def test_twice_the_batch_saves_twice_the_activations() -> None:
    kept = [estimate(Circle(points(64, 0), batch=n), CONFIG, CPU).activation_bytes for n in (8, 16)]
    assert kept[1] == pytest.approx(2 * kept[0], rel=0.05)


def test_the_average_is_counted() -> None:
    config = replace(CONFIG, ema_decay=0.9)
    assert estimate(Circle(points(64, 0)), config, CPU).optimizer_bytes == 3 * 4 * 82


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        replace(CONFIG, gradient_accumulation_steps=2),
        replace(CONFIG, steps=5),
        replace(CONFIG, steps=500),
        replace(CONFIG, epochs=1.5),
    ],
)
def test_the_number_of_steps_is_right(tmp_path: Path, config: TrainingConfig) -> None:
    estimated = estimate(Circle(points(64, 0), batch=8), config, CPU).steps
    job = Circle(points(64, 0), batch=8)
    taken = Trainer(job, config, tmp_path, seed=0, device=CPU, metadata={}).fit().step
    assert estimated == taken


def test_bytes_per_rank() -> None:
    """Circle has no layers: all weights are gathered in a step; the rest is divided."""
    found = estimate(Circle(points(64, 0)), CONFIG, CPU)
    assert (found.outside_bytes, found.layer_bytes) == (found.weight_bytes, 0)
    w, rest = found.weight_bytes, found.activation_bytes
    assert found.bytes_per_rank(4) == 7 * w // 4 + 2 * w + rest
    deep = replace(found, outside_bytes=0, layer_bytes=8, activation_bytes=0)
    assert deep.bytes_per_rank(8) == 6 * w // 8 + w  # an evaluation with all weights
    assert deep.bytes_per_rank(8) < deep.bytes / 3


def test_minutes_limit_the_steps() -> None:
    config = TrainingConfig(minutes=2, precision="float32")
    found = estimate(Circle(points(64, 0), batch=8), config, CPU)
    assert found.seconds == pytest.approx(120, rel=0.01)
