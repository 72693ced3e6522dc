"""A training in Weights & Biases: a callback of ten lines. Needs `pip install wandb`.

python examples/track_wandb.py numbers
"""

import sys

import wandb

import jumok


class WeightsAndBiases(jumok.Callback):
    def on_step(self, status: jumok.TrainingStatus) -> None:
        run = wandb.run or wandb.init(project="jumok", name=status.folder.name)
        run.log({"loss": status.loss, "learning_rate": status.learning_rate}, step=status.step)

    def on_evaluation(self, status: jumok.TrainingStatus) -> None:
        wandb.run.log({"dev_loss": status.dev_loss, status.metric: status.score}, step=status.step)

    def on_end(self, status: jumok.TrainingStatus) -> None:
        wandb.finish()


if __name__ == "__main__":
    jumok.train(sys.argv[1], callbacks=[WeightsAndBiases()])
