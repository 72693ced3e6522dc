"""A search for hyperparameters with Optuna, in one file. Needs `pip install optuna`.

    python examples/search_optuna.py nsmc runs/search 20

Each trial is an ordinary run, so that `jumok table runs/search/*` prints all of them. Trials are
compared on the development split, never on the test split, and stopped early where the median of
the others was better at the same step. The same command continues the search.
"""

import sys
from pathlib import Path

import optuna

import jumok


class Prune(jumok.Callback):
    """Ends a trial that is worse than the others at this step."""

    def __init__(self, trial: optuna.Trial) -> None:
        self.trial = trial

    def on_evaluation(self, status: jumok.TrainingStatus) -> None:
        self.trial.report(status.score or 0.0, status.step)
        if self.trial.should_prune():
            status.stop()


def objective(trial: optuna.Trial) -> float:
    """The score on the development split of a run with the suggested values."""
    run = jumok.train(
        sys.argv[1],
        out=FOLDER / f"trial-{trial.number}",
        callbacks=[Prune(trial)],
        training__learning_rate=trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True),
        model__dropout=trial.suggest_float("dropout", 0.0, 0.3, step=0.1),
    )
    return run.results["dev"]["score"]


FOLDER = Path(sys.argv[2])

if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        storage=f"sqlite:///{FOLDER}/study.db",
        study_name="search",
        load_if_exists=True,
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=0),
    )
    study.optimize(objective, n_trials=int(sys.argv[3]))
    print(study.best_value, study.best_params)
