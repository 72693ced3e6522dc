"""A training in MLflow: a callback of ten lines. Needs `pip install mlflow`.

python examples/track_mlflow.py numbers
"""

import sys

import mlflow

import jumok


class MLflow(jumok.Callback):
    def on_step(self, status: jumok.TrainingStatus) -> None:
        mlflow.active_run() or mlflow.start_run(run_name=status.folder.name)
        mlflow.log_metric("loss", status.loss, step=status.step)

    def on_evaluation(self, status: jumok.TrainingStatus) -> None:
        mlflow.log_metrics({"dev_loss": status.dev_loss, status.metric: status.score}, status.step)

    def on_end(self, status: jumok.TrainingStatus) -> None:
        mlflow.end_run()


if __name__ == "__main__":
    jumok.train(sys.argv[1], callbacks=[MLflow()])
