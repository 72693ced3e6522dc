"""The loss of int8 that was measured for a run, by which `predict` and `serve` choose a precision.

`jumok evaluate RUN --measure-int8` writes it into the folder of the run.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jumok.atomic_io import sha256_of
from jumok.config_io import from_dict
from jumok.safe_json import read_json
from jumok.tasks.runs.run_files import MAX_WEIGHTS_BYTES

RECORD = "int8.json"
MAX_LOSS = 0.005  # of each metric


@dataclass(frozen=True, kw_only=True)
class Metric:
    """The score of a run in both precisions."""

    name: str
    float32: float
    int8: float


@dataclass(frozen=True, kw_only=True)
class Int8Loss:
    """int8 and float32 on the dev rows of a run, in the kernel.

    >>> loss = Int8Loss(
    ...     weights_sha256="", rows=200, different=1,
    ...     metrics=(Metric(name="accuracy", float32=0.875, int8=0.872),)
    ... )
    >>> loss.precision
    'int8'
    """

    weights_sha256: str
    rows: int
    different: int  # rows with another output
    metrics: tuple[Metric, ...]

    @property
    def precision(self) -> Literal["float32", "int8"]:
        """The precision that is used: int8 where no metric falls by more than `MAX_LOSS`."""
        small = all(each.float32 - each.int8 <= MAX_LOSS for each in self.metrics)
        return "int8" if small and self.metrics else "float32"


def measured_precision(weights: Path | None, sha256: str = "") -> Literal["float32", "int8"]:
    """The precision for the weights in this file, whose checksum may be known.

    float32 where nothing was measured, or with other weights. Raises InputError for a damaged
    record.
    """
    if weights is None or not (path := weights.with_name(RECORD)).is_file():
        return "float32"
    loss = from_dict(Int8Loss, read_json(path), str(path), complete=True)
    known = sha256 or sha256_of(weights, MAX_WEIGHTS_BYTES)
    return loss.precision if known == loss.weights_sha256 else "float32"
