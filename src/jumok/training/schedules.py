"""Learning rate schedules: linear warm-up, then a decay, found by name.

A decay is a function of the step (1, 2, ...), the steps of the warm-up and the progress of the
training (0 to 1); it returns the factor of the peak learning rate after the warm-up.
"""

import math
from collections.abc import Callable

from jumok.errors import ConfigError
from jumok.registry import Registry

Decay = Callable[[int, int, float], float]

SCHEDULES = Registry[Decay](
    "jumok.schedules",
    "training.schedule",
    {
        name: f"jumok.training.schedules:{name}"
        for name in ("inverse_sqrt", "cosine", "linear", "constant")
    },
)


def lr_multiplier(schedule: str, step: int, warmup_steps: int, progress: float) -> float:
    """The factor (0 to 1) of the peak learning rate at step 1, 2, ...

    inverse_sqrt is equation (3) of the paper, scaled to 1 at the end of the warm-up. cosine and
    linear fall to 0 at progress 1, the end of the training; progress counts from the first step, so
    they are below 1 when the warm-up ends: linear continues from 0.8 after a warm-up of a fifth.

    >>> [round(lr_multiplier("inverse_sqrt", s, 4, 0.0), 3) for s in (1, 4, 16)]
    [0.25, 1.0, 0.5]
    >>> [round(lr_multiplier("linear", 10, 0, p), 2) for p in (0.0, 0.75, 1.0)]
    [1.0, 0.25, 0.0]

    Raises ConfigError for a registered schedule that returns no such factor.
    """
    if step < warmup_steps:
        return step / warmup_steps
    factor: object = SCHEDULES.get(schedule)(step, warmup_steps, progress)
    if isinstance(factor, int | float) and 0 <= factor < math.inf:
        return factor
    raise ConfigError(
        "training.schedule_factor",
        "the schedule {schedule} must return a factor of at least 0, got {factor!r:.60} at step "
        "{step}",
        schedule=schedule,
        factor=factor,
        step=step,
    )


def inverse_sqrt(step: int, warmup_steps: int, progress: float) -> float:
    """Equation (3) of the paper, scaled to 1 at the end of the warm-up."""
    return math.sqrt(max(warmup_steps, 1) / max(step, 1))


def cosine(step: int, warmup_steps: int, progress: float) -> float:
    """Half a cosine, from 1 to 0."""
    return 0.5 * (1 + math.cos(math.pi * progress))


def linear(step: int, warmup_steps: int, progress: float) -> float:
    """A line from 1 to 0."""
    return 1 - progress


def constant(step: int, warmup_steps: int, progress: float) -> float:
    """Always 1."""
    return 1.0
