"""A state of which several processes hold the rows: files of it, and rows out of them.

A weight of n rows held by W processes is cut as fully sharded data parallelism cuts it: ceil(n / W)
rows each, fewer or none at the end. The file of each process has its rows under the weight's name,
so that the files of a state, one after the other, are the whole.
"""

import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from jumok import safetensors_io as tensorfile
from jumok.atomic_io import open_regular
from jumok.errors import CheckpointError
from jumok.training.checkpoints.manifest import FileRecord

AT_ONCE = 2**20  # bytes that are read over
_SHARD = re.compile(r"(?P<state>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})")


def local_rows(n: int, rank: int, size: int) -> range:
    """Which of n rows are those of one of `size` processes.

    >>> [list(rows_of(5, rank, 4)) for rank in range(4)]
    [[0, 1], [2, 3], [4], []]
    """
    each = -(-n // size)
    return range(min(rank * each, n), min((rank + 1) * each, n))


def shard_name(state: str, rank: int, size: int) -> str:
    """The state's part that one of `size` processes holds.

    >>> shard_name("model", 0, 4)
    'model-00001-of-00004'
    """
    return f"{state}-{rank + 1:05}-of-{size:05}"


def group_shards(names: Iterable[str]) -> dict[str, list[str]]:
    """The states that these parts are of, each with its parts in order.

    Raises CheckpointError when a part is missing.

    >>> group_shards(["model-00002-of-00002", "model-00001-of-00002", "average"])
    {'average': ['average'], 'model': ['model-00001-of-00002', 'model-00002-of-00002']}
    """
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        match = _SHARD.fullmatch(name)
        found.setdefault(match["state"] if match else name, []).append(name)
    for state, parts in found.items():
        match = _SHARD.fullmatch(parts[0])
        count = int(match["count"]) if match else 1
        if match and parts != [shard_name(state, rank, count) for rank in range(count)]:
            raise CheckpointError(
                f"state {state!r} is in {parts}, which is not all of one set; copy a sound "
                "checkpoint back"
            )
    return found


@dataclass
class _Piece:
    """A tensor to fill, and which bytes of a file belong into it."""

    start: int
    end: int
    into: memoryview


@dataclass(frozen=True)
class _File:
    """A file of a state: where its tensors begin, what they are, what it should sum up to."""

    path: Path
    record: FileRecord
    begin: int
    entries: Mapping[str, tensorfile.TensorEntry]
    pieces: list[_Piece] = field(default_factory=list)


def read_local_rows(
    files: Mapping[Path, FileRecord], rank: int = 0, size: int = 1
) -> dict[str, Tensor]:
    """The rows of one of `size` processes, from the files of a state in their order.

    What has no rows at all, a number of steps for example, is the same for everybody. Nothing else
    is held in memory, and each file is read and summed once. Raises CheckpointError when one is not
    what its record says.
    """
    opened = [_open(path, record) for path, record in files.items()]
    tensors: dict[str, Tensor] = {}
    for name in {name: None for file in opened for name in file.entries}:
        holders = [file for file in opened if name in file.entries]
        first = holders[0].entries[name]
        dtype = tensorfile.torch_dtype(first.dtype)
        if not first.shape:
            tensors[name] = torch.empty((), dtype=dtype)
            _want(holders[0], name, tensors[name], 0)
            continue
        counts = [file.entries[name].shape[0] for file in holders]
        wanted = local_rows(sum(counts), rank, size)
        tensors[name] = torch.empty((len(wanted), *first.shape[1:]), dtype=dtype)
        before = 0  # rows in the files before this one
        for file, count in zip(holders, counts, strict=True):
            mine = range(max(wanted.start, before), min(wanted.stop, before + count))
            if mine:
                part = tensors[name][mine.start - wanted.start : mine.stop - wanted.start]
                _want(file, name, part, mine.start - before)
            before += count
    for file in opened:
        _read(file)
    return tensors


def _open(path: Path, record: FileRecord) -> _File:
    entries = tensorfile.read_header(path)
    with open_regular(path) as (file, _):
        begin = 8 + int.from_bytes(file.read(8), "little")
    return _File(path, record, begin, entries)


def _want(file: _File, name: str, into: Tensor, row: int) -> None:
    """Ask for the bytes of a file from one row of a tensor on, as many as go into `into`."""
    entry = file.entries[name]
    bytes_a_row = into.element_size() * math.prod(entry.shape[1:])
    start = file.begin + entry.start + row * bytes_a_row
    if into.nbytes:
        memory = into.reshape(-1).view(torch.uint8).numpy().data
        file.pieces.append(_Piece(start, start + into.nbytes, memory))


def _read(file: _File) -> None:
    """Fill what was asked for, and sum all bytes up."""
    total = hashlib.sha256()
    with open_regular(file.path) as (stream, size):
        place = 0
        for piece in sorted(file.pieces, key=lambda piece: piece.start):
            _pass_over(stream, piece.start - place, total)
            if stream.readinto(piece.into) == len(piece.into):
                total.update(piece.into)
            place = piece.end
        _pass_over(stream, size - place, total)
    if size != file.record.bytes or total.hexdigest() != file.record.sha256:
        raise CheckpointError(f"{file.path}: changed while it was read; resume again")


def _pass_over(stream: BinaryIO, n: int, total: "hashlib._Hash") -> None:
    """Read n bytes only to sum them."""
    while n > 0:
        data = stream.read(min(n, AT_ONCE))
        if not data:
            return
        total.update(data)
        n -= len(data)
