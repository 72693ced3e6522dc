"""Callbacks: the user's own code at four moments of a training."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor, nn

from jumok.errors import JumokError
from jumok.terminal import command_line, escape_control


class CallbackError(JumokError):
    """A callback raised an exception; the run has a checkpoint of the last step."""


@dataclass(frozen=True)
class TrainingStatus:
    """What a callback reads about a training, and its means to stop it and to print.

    Numbers that are not known yet are None: there is no `score` before the first evaluation.

    >>> status = TrainingStatus(Path("runs/a"), step=10, epoch=0.5, progress=0.1, loss=1.2,
    ...     learning_rate=1e-4, tokens_per_second=9000.0, seconds=3.0)
    >>> status.score is None, status.ended
    (True, '')
    """

    folder: Path  # of the run
    step: int  # optimizer steps so far
    epoch: float  # passes over the training rows so far, with the part of the current one
    progress: float  # of the whole training, 0 to 1
    loss: float  # mean loss per target of the last step, in nats
    learning_rate: float  # of the last step
    tokens_per_second: float  # as of the last record
    seconds: float  # of training and evaluation, those before a resume included
    metric: str = ""  # that selects the best checkpoint; "" before the first evaluation
    score: float | None = None  # of the last evaluation on the development split
    dev_loss: float | None = None  # of the same evaluation
    best_step: int = 0  # the step whose weights are kept so far; 0 before the first evaluation
    ended: str = ""  # why the training ended: done, minutes, patience or callback
    model: nn.Module | None = None  # to read: its weights of this step, perhaps in training mode
    # A copy of the state of the optimizer, by `part:weight`.
    optimizer: Callable[[], Mapping[str, Tensor]] = lambda: {}  # noqa: PIE807
    statistics: Mapping[str, float] = field(default_factory=dict)  # of this step; {} where not due
    stop: Callable[[], None] = lambda: None  # end the training after an evaluation of this step
    log: Callable[[str], None] = lambda text: None  # print a line above the progress bar


class Callback:
    """Base class of callbacks: override the moments that you need; each does nothing by default.

    The moments, in the order in which they can follow one optimizer step:

        on_step        after every optimizer step
        on_evaluation  after every evaluation on the development split
        on_checkpoint  after a checkpoint of the step was passed on to be written
        on_end         once, after the last checkpoint and before the tests

    A method may read `status`, call `status.stop()` (the step is evaluated, saved, and the training
    ends as if it were complete) and `status.log("text")`. It cannot change the training otherwise:
    the weights are the same with and without callbacks that do not stop; one that writes into the
    weights of `status.model` in place ends the run. With several processes callbacks are called in
    the first one only.

    An exception in a callback ends the run with CallbackError, after a checkpoint: correct the
    callback, and resume the run with `jumok.resume(folder, callbacks=...)`.

    >>> class StopEarly(Callback):
    ...     def on_evaluation(self, status):
    ...         if status.score > 0.9:
    ...             status.stop()
    """

    def on_step(self, status: TrainingStatus) -> None:
        """After every optimizer step."""

    def on_evaluation(self, status: TrainingStatus) -> None:
        """After every evaluation on the development split."""

    def on_checkpoint(self, status: TrainingStatus) -> None:
        """After a checkpoint was passed on to be written."""

    def on_end(self, status: TrainingStatus) -> None:
        """Once, after the last checkpoint and before the tests."""


class CallbackCalls:
    """Calls the callbacks of a training; remembers a stop and the first failure."""

    def __init__(self, callbacks: Sequence[Callback], folder: Path) -> None:
        self.callbacks, self.folder = tuple(callbacks), folder
        self.stopped = False
        self.failure: CallbackError | None = None

    def __bool__(self) -> bool:
        return bool(self.callbacks)

    def stop(self) -> None:
        """End the training after this step."""
        self.stopped = True

    def call(self, moment: str, status: TrainingStatus) -> None:
        """Call the method `moment` of each callback, until one fails."""
        for callback in self.callbacks if self.failure is None else ():
            with self._caught(f"{type(callback).__name__}.{moment}", status.step):
                before = _versions(status.model)
                getattr(callback, moment)(status)
                if _versions(status.model) != before:
                    raise RuntimeError("it changed the weights of status.model, which is to read")

    @contextmanager
    def _caught(self, name: str, step: int) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if self.failure is not None:
                return
            reason = escape_control(f"{type(error).__name__}: {error}".splitlines()[0][:200])
            resume = command_line("jumok", "train", "--resume", self.folder)
            self.failure = CallbackError(
                "training.callback_failed_step",
                "the callback {name} failed at step {step} ({reason}), which is saved; correct "
                "it and resume with jumok.resume, or without callbacks with {resume}",
                name=name,
                step=step,
                reason=reason,
                resume=resume,
            )
            self.failure.__cause__ = error


def _versions(model: nn.Module | None) -> list[int]:
    """How often each weight was written in place, and whether it is trained.

    PyTorch does not count writes through `.data`.
    """
    if model is None:
        return []
    return [2 * weight._version + weight.requires_grad for weight in model.parameters()]
