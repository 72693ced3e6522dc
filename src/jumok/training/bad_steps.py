"""Steps that would do harm: told, written out for inspection, and not taken."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path

from torch import Tensor

from jumok import tensorfile
from jumok.storage import storage_errors, write_atomically

FOLDER = "bad-steps"
MOST_IN_A_ROW = 20  # more are no accident of the data
ENOUGH = 20  # losses make a mean one can be far from
KEPT = 0.98  # of the running mean, each step


def running_mean(mean: float, loss: float) -> float:
    """The mean of the losses so far, old ones fading; NaN before the first.

    >>> running_mean(math.nan, 5.0), running_mean(5.0, 4.0)
    (5.0, 4.98)
    """
    return loss if math.isnan(mean) else KEPT * mean + (1 - KEPT) * loss


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
    write_atomically(path, tensorfile.pack(tensors, words))
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
