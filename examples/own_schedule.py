"""A learning rate schedule of your own, in one file: warm-up, stable, decay (WSD).

    python examples/own_schedule.py runs/wsd
    JUMOK_EXTENSIONS=examples/own_schedule.py jumok train numbers training.schedule=wsd

The rate stays at its peak and falls in the last fifth of the training (Hu et al. 2024, "MiniCPM",
section 4), here by 1 - sqrt (Hägele et al. 2024, "Scaling Laws and Compute-Optimal Training Beyond
Fixed Training Durations", section 3.1). A distribution registers its schedule with an entry point:

    [project.entry-points."jumok.schedules"]
    wsd = "own_schedule:wsd"
"""

import math
import sys

import jumok
from jumok.registry import register

DECAY = 0.2  # the part of the training in which the rate falls


@register("jumok.schedules", "wsd")
def wsd(step: int, warmup_steps: int, progress: float) -> float:
    """The factor of the peak rate after the warm-up; progress is from 0 to 1."""
    return 1 - math.sqrt(max(progress - (1 - DECAY), 0) / DECAY)


if __name__ == "__main__":
    run = jumok.train("numbers", training__schedule="wsd", training__steps=200, out=sys.argv[1])
    print(run.results)
