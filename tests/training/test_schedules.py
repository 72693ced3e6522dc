"""Learning rates against the closed formulas, over ten thousand steps."""

import math

import numpy as np
import pytest

from jumok.training.config import TrainingConfig
from jumok.training.schedules import lr_multiplier

STEPS = 10_000
step = np.arange(1, STEPS + 1)


def multipliers(schedule: str, warmup: int) -> np.ndarray:  # type: ignore[type-arg]
    """The multipliers of a training of STEPS steps."""
    return np.array([lr_multiplier(schedule, s, warmup, (s - 1) / STEPS) for s in step])


def test_inverse_square_root_is_the_paper_s() -> None:
    """Equation (3): d^-0.5 min(step^-0.5, step warmup^-1.5), here scaled to a peak of 1."""
    for warmup in (1, 400, 4000):
        paper = 512**-0.5 * np.minimum(step**-0.5, step * warmup**-1.5)
        np.testing.assert_allclose(
            multipliers("inverse_sqrt", warmup), paper / paper.max(), rtol=1e-12
        )


@pytest.mark.parametrize("warmup", [0, 300, 10_001])
def test_cosine_linear_and_constant(warmup: int) -> None:
    done = (step - 1) / STEPS
    formulas = {
        "cosine": 0.5 * (1 + np.cos(np.pi * done)),
        "linear": 1 - done,
        "constant": np.ones(STEPS),
    }
    for schedule, formula in formulas.items():
        expected = np.where(step < warmup, step / max(warmup, 1), formula)
        np.testing.assert_allclose(multipliers(schedule, warmup), expected, atol=1e-12)  # type: ignore[arg-type]


@pytest.mark.parametrize("schedule", ["inverse_sqrt", "cosine", "linear", "constant"])
def test_the_rate_never_rises_after_the_warmup(schedule: str) -> None:
    share = multipliers(schedule, 400)
    assert (np.diff(share[:399]) > 0).all()
    assert (np.diff(share[400:]) <= 0).all()
    assert share.max() <= 1.0
    assert share.min() >= 0.0


def test_without_warmup_the_first_rate_is_the_highest() -> None:
    for schedule in ("inverse_sqrt", "cosine", "linear", "constant"):
        assert lr_multiplier(schedule, 1, 0, 0.0) == 1.0
    assert math.isclose(lr_multiplier("inverse_sqrt", 4, 0, 0.0), 0.5)


@pytest.mark.parametrize(
    ("config", "step", "epochs", "seconds", "progress"),
    [
        (TrainingConfig(steps=10), 3, 0.2, 9.0, 0.3),
        (TrainingConfig(epochs=4), 3, 1.0, 9.0, 0.25),
        (TrainingConfig(epochs=4, steps=10), 3, 2.0, 9.0, 0.5),  # the first limit counts
        (TrainingConfig(epochs=4, steps=10), 8, 2.0, 9.0, 0.8),
        (TrainingConfig(epochs=1), 3, 1.25, 9.0, 1.0),  # a step may reach into the next epoch
        (TrainingConfig(minutes=5), 1000, 9.0, 60.0, 0.2),
        (TrainingConfig(minutes=5), 1000, 9.0, 600.0, 1.0),
        (TrainingConfig(minutes=5, steps=10), 1, 9.0, 299.0, 0.1),  # the same on every machine
    ],
)
def test_progress(
    config: TrainingConfig, step: int, epochs: float, seconds: float, progress: float
) -> None:
    assert math.isclose(config.progress(step, epochs, seconds), progress)
