"""Activations of a data set by name, in the precision of the model, in memory or in files.

Shapes: n rows of data, N real tokens of all rows, T and S the most tokens of a row.
"""

import shutil
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jumok.atomic_io import storage_errors
from jumok.errors import InputError
from jumok.experiment.inputs import Batch, Data, Model, Subject, read
from jumok.models.points import Point

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Activations(Mapping[str, Array]):
    """Arrays by the name of their point, padded with 0 to the longest row: (n, ...).

    `points` have the axes of each, `data` the ids. Arrays beyond the budget are memory-mapped .npy
    files in `folder`, which any program of numpy reads; a folder of its own is removed with the
    object.
    """

    arrays: Mapping[str, Array]
    points: Mapping[str, Point]
    data: Data
    folder: Path | None = None

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)

    def tokens(self, name: str) -> Array:
        """The vectors of the real tokens of all rows, one after the other: (N, ...).

        Raises InputError for weights and scores, which belong to two tokens.
        """
        point = self.points[name]
        array = np.moveaxis(self[name], token_axis(point), 1)  # (n, T, ...)
        lengths = self.data.lengths(point.token_side)
        found: Array = array[np.arange(array.shape[1]) < lengths[:, None]]
        return found

    def means(self, name: str) -> Array:
        """The mean over the real tokens of each row, (n, ...): features of a whole text."""
        point = self.points[name]
        tokens = self.tokens(name)
        lengths = self.data.lengths(point.token_side)
        starts = np.concatenate([[0], lengths.cumsum()[:-1]])
        sums: Array = np.add.reduceat(tokens, starts, axis=0)
        return sums / lengths.reshape(-1, *[1] * (sums.ndim - 1))


def token_axis(point: Point) -> int:
    """The axis of tokens of a point. Raises InputError for weights and scores, which have two."""
    if point.token_axis is None:
        raise InputError(
            "experiment.two_token_axes",
            "{name} must have one axis of tokens, got {axes}; try {name_2}",
            name=point.name,
            axes=point.axes,
            name_2=f"{point.name.rpartition('.')[0]}.mixed",
        )
    return point.token_axis


def activations(
    model: Model,
    data: object,
    names: str | Sequence[str],
    *,
    memory: int = 2**30,
    folder: Path | str | None = None,
) -> Activations:
    """The activations of all rows of the data at the points that match `names`.

    data: texts, token ids or a data set (`jumok.experiment.read`). names: patterns such as
    "decoder.*.weights". memory: the bytes that they may take in memory; if they take more, or with
    a `folder`, every array is a memory-mapped file that is written batch by batch. Nothing is
    rounded: float32 stays float32; bfloat16, which numpy has not, becomes float32.

    >>> import jumok
    >>> model = jumok.load("ko-small", device="cpu")
    >>> found = activations(model, ["비가 온다", "날이 맑다"], ["encoder.0.*", "source.hidden.0"])
    >>> weights = found["encoder.0.weights"]  # (n, H, T, S)
    >>> weights.dtype, weights[0, 0, 0].sum().round(4)
    (dtype('float32'), np.float32(1.0))

    Raises InputError for a name without a point, StorageError where the files cannot be written.
    """
    subject, rows = Subject(model), read(model, data)
    chosen = {name: subject.points[name] for name in subject.names(names)}
    own_folder = ""
    arrays: dict[str, Array] = {}
    for batch in rows.batches(subject.device):
        _, found = subject.run(batch, list(chosen))
        if not arrays:
            shapes = {name: _shape(point, found[name], rows) for name, point in chosen.items()}
            types = {name: _numpy(found[name][:0]).dtype for name in chosen}
            size = sum(int(np.prod(shapes[name])) * types[name].itemsize for name in chosen)
            if folder is None and size > memory:
                folder = own_folder = mkdtemp(prefix="jumok-activations-")
            arrays = {name: _empty(shapes[name], types[name], name, folder) for name in chosen}
        for name, point in chosen.items():
            _store(arrays[name], point, found[name], batch)
    for array in arrays.values():
        if isinstance(array, np.memmap):
            array.flush()
    made = Activations(arrays, chosen, rows, None if folder is None else Path(folder))
    if own_folder:
        weakref.finalize(made, shutil.rmtree, own_folder, ignore_errors=True)
    return made


def _shape(point: Point, x: Tensor, rows: Data) -> tuple[int, ...]:
    """The shape of the activation of all rows, from that of one batch."""
    sizes = {
        "B": len(rows),
        "T": int(rows.lengths(point.sides[0]).max()),
        "S": int(rows.lengths(point.sides[1]).max()),
    }
    return tuple(sizes.get(letter, n) for letter, n in zip(point.axes, x.shape, strict=True))


def _empty(
    shape: tuple[int, ...], dtype: np.dtype[Any], name: str, folder: Path | str | None
) -> Array:
    if folder is None:
        return np.zeros(shape, dtype)
    with storage_errors(f"{folder}: cannot be written"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        return np.lib.format.open_memmap(Path(folder) / f"{name}.npy", "w+", dtype, shape)


def _store(array: Array, point: Point, x: Tensor, batch: Batch) -> None:
    """Store the activations of a batch without its padding; one for all rows is repeated."""
    values = _numpy(x)
    lengths = {
        letter: batch.mask[side].sum(1).tolist()
        for letter, side in zip("TS", point.sides, strict=True)
    }
    for i, row in enumerate(batch.rows.tolist()):
        part = tuple(
            slice(lengths[letter][i]) if letter in lengths else slice(None)
            for letter in point.axes[1:]
        )
        array[row][part] = values[i % len(values)][part]


def _numpy(x: Tensor) -> Array:
    found: Array = (x.float() if x.dtype == torch.bfloat16 else x).cpu().numpy()
    return found
