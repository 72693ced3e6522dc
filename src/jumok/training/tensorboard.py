"""A callback that writes the curves of a training for TensorBoard; needs the extra [track]."""

from jumok.extras import naming_extras
from jumok.training.callbacks import Callback, TrainingStatus


class TensorBoard(Callback):
    """Writes loss, learning rate, speed and scores to FOLDER/tensorboard, by step.

    Needs the package tensorboard; raises InputError without it.

        jumok.train("numbers", callbacks=[TensorBoard()])    # then: tensorboard --logdir runs
    """

    def __init__(self, every: int = 20) -> None:
        """`every`: steps between two points of the training loss."""
        with naming_extras("TensorBoard"):
            from torch.utils.tensorboard import SummaryWriter
        self.every, self._make_writer = every, SummaryWriter
        self._writer: SummaryWriter | None = None

    def _write(self, status: TrainingStatus, **values: float | None) -> None:
        if self._writer is None:
            folder = str(status.folder / "tensorboard")
            self._writer = self._make_writer(folder, purge_step=status.step)
        for name, value in values.items():
            if value is not None:
                self._writer.add_scalar(name, value, status.step)

    def on_step(self, status: TrainingStatus) -> None:
        """Write the loss, the learning rate and the speed."""
        if status.step % self.every == 0:
            values = {"learning_rate": status.learning_rate, "tokens/s": status.tokens_per_second}
            self._write(status, **{"train/loss": status.loss}, **values)
        if status.statistics:  # of training.statistics
            self._write(status, **status.statistics)

    def on_evaluation(self, status: TrainingStatus) -> None:
        """Write the loss and the score on the development split."""
        scores = {"dev/loss": status.dev_loss, f"dev/{status.metric}": status.score}
        self._write(status, **{"train/loss": status.loss}, **scores)

    def on_end(self, status: TrainingStatus) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
