"""Steps that would do harm: told, written out for inspection, and not taken."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path

from torch import Tensor

from jumok import safetensors_io as tensorfile
from jumok.atomic_io import storage_errors, write_atomically
from jumok.errors import NonFiniteError
from jumok.processes import ProcessGroup, raise_together
from jumok.training.state import TrainerState

FOLDER = "bad-steps"
MOST_IN_A_ROW = 20  # more are no accident of the data
ENOUGH = 20  # losses make a mean one can be far from


@dataclass(frozen=True)
class Trouble:
    """Why a step would do harm: a loss or gradients that are no number, or a spike of the loss."""

    loss: float
    why: str
    finite: bool

    def first_in(self, where: str) -> "Trouble":
        """The same, of a known place."""
        return replace(self, why=f"{self.why}, first in {where}")


def trouble_of(loss: float, norm: float, progress: TrainerState, spike: float) -> Trouble | None:
    """What is wrong with a step of this loss and norm of the gradients; None: it may be taken."""
    if not (math.isfinite(loss) and math.isfinite(norm)):
        return Trouble(loss, "the loss or a gradient is not finite", finite=False)
    mean, seen = progress.mean_loss, progress.step - progress.skipped
    if spiked(loss, mean, seen, spike):
        why = f"a loss of {loss:.4g} came, {loss / mean:.1f} times the mean before it"
        return Trouble(loss, why, finite=True)
    return None


def refused(
    folder: Path,
    step: int,
    parts: Mapping[int, object],
    trouble: Trouble,
    in_a_row: int,
    processes: ProcessGroup,
    *,
    stop: bool,
) -> str:
    """Write out this process's batches of a step that is not taken; what is to be told of it.

    Raises NonFiniteError with it, in all processes alike, when the training shall `stop` or too
    many steps in a row were refused; StorageError when the batches cannot be written.
    """
    several = f"-process-{processes.rank}" if processes.size > 1 else ""
    with raise_together(processes):
        story: dict[str, str | float] = {"why": trouble.why, "loss": trouble.loss}
        path = write_out(folder, f"step-{step}{several}", parts, story)
    told = f"step {step}: {trouble.why}; the step was not taken, its batch is in {path}"
    if stop or in_a_row > MOST_IN_A_ROW:
        rows = f", {in_a_row} in a row" if in_a_row > 1 else ""
        with raise_together(processes):
            raise NonFiniteError(
                f"{told}{rows}; train anew with a lower training.learning_rate or a longer "
                "training.warmup_steps, or pass over such steps with "
                'training.on_nonfinite = "skip"'
            )
    return told


def spiked(loss: float, mean: float, seen: int, factor: float) -> bool:
    """Whether a loss is more than `factor` times the mean of those before; factor 0: never.

    >>> spiked(9.0, 2.0, seen=100, factor=4.0), spiked(9.0, 2.0, seen=3, factor=4.0)
    (True, False)
    """
    return bool(factor) and seen >= ENOUGH and loss > factor * mean


def write_out(
    folder: Path, name: str, parts: Mapping[int, object], story: Mapping[str, str | float]
) -> Path:
    """The batches of a step as RUN/bad-steps/NAME.safetensors; what happened is its metadata.

    Tensors are named as in the batch: `0.ids` is the ids of the first. Raises StorageError.
    """
    path = folder / FOLDER / f"{name}.safetensors"
    tensors = {
        f"{number}.{name}": tensor.detach().cpu().contiguous()
        for number, part in parts.items()
        for name, tensor in _tensors(part)
    }
    with storage_errors(f"{path.parent}: cannot be made"):
        path.parent.mkdir(parents=True, exist_ok=True)
    words = {key: str(value) for key, value in story.items()}
    write_atomically(path, tensorfile.serialize(tensors, words))
    return path


def _tensors(part: object) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of a batch, and of what it is made of."""
    if not is_dataclass(part):
        return
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, Tensor):
            yield field.name, value
        for name, tensor in _tensors(value):
            yield f"{field.name}.{name}", tensor
