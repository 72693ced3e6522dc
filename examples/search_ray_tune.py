"""A search for hyperparameters with Ray Tune, in one file. Needs `pip install "ray[tune]"`.

    python examples/search_ray_tune.py nsmc runs/search 20

Trials run in parallel, one a core, each an ordinary run; after each evaluation the worse half of
them ends (ASHA, Li et al. 2020). They are compared on the development split.
"""

import os
import sys
from pathlib import Path

from ray import tune
from ray.tune.schedulers import ASHAScheduler

import jumok


class Report(jumok.Callback):
    """Passes each score on to Ray Tune, which ends the process of a trial that it stops."""

    def on_evaluation(self, status: jumok.TrainingStatus) -> None:
        tune.report({"score": status.score, "step": status.step})


def trial(values: dict[str, float]) -> None:
    """Train a run with the values of a trial."""
    jumok.train(
        RECIPE,
        out=FOLDER / tune.get_context().get_trial_id(),
        callbacks=[Report()],
        training__learning_rate=values["learning_rate"],
        model__dropout=values["dropout"],
    )


RECIPE, FOLDER = sys.argv[1], Path(sys.argv[2]).absolute()

if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    tuner = tune.Tuner(
        trial,
        param_space={"learning_rate": tune.loguniform(1e-4, 1e-2), "dropout": tune.uniform(0, 0.3)},
        tune_config=tune.TuneConfig(
            metric="score", mode="max", num_samples=int(sys.argv[3]), scheduler=ASHAScheduler()
        ),
        run_config=tune.RunConfig(storage_path=str(FOLDER / "ray"), verbose=0),
    )
    best = tuner.fit().get_best_result()
    print(best.metrics["score"], best.config)
