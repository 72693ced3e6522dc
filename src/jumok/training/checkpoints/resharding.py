"""The rows of one process, read from the files of any number of processes.

A weight of n rows is split among W processes as fully sharded data parallelism does: ceil(n / W)
rows each, fewer or none at the end. The file of each process holds its rows under the name of the
weight, so that the concatenated files of a state are the whole weight.
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

from jumok import safetensors_io
from jumok.atomic_io import open_regular
from jumok.errors import CheckpointError
from jumok.training.checkpoints.manifest import FileRecord

READ_CHUNK = 2**20  # bytes
_SHARD = re.compile(r"(?P<state>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})")


def local_rows(n: int, rank: int, size: int) -> range:
    """Which of n rows belong to one of `size` processes.

    >>> [list(local_rows(5, rank, 4)) for rank in range(4)]
    [[0, 1], [2, 3], [4], []]
    """
    each = -(-n // size)
    return range(min(rank * each, n), min((rank + 1) * each, n))


def shard_name(state: str, rank: int, size: int) -> str:
    """The name of the part of a state that one of `size` processes holds.

    >>> shard_name("model", 0, 4)
    'model-00001-of-00004'
    """
    return f"{state}-{rank + 1:05}-of-{size:05}"


def group_shards(names: Iterable[str]) -> dict[str, list[str]]:
    """The states of these shards, each with its shards in order.

    Raises CheckpointError if a shard is missing.

    >>> group_shards(["model-00002-of-00002", "model-00001-of-00002", "average"])
    {'average': ['average'], 'model': ['model-00001-of-00002', 'model-00002-of-00002']}
    """
    states: dict[str, list[str]] = {}
    for name in sorted(names):
        match = _SHARD.fullmatch(name)
        states.setdefault(match["state"] if match else name, []).append(name)
    for state, shards in states.items():
        match = _SHARD.fullmatch(shards[0])
        count = int(match["count"]) if match else 1
        complete = [shard_name(state, rank, count) for rank in range(count)] if match else [state]
        if shards != complete:
            raise CheckpointError(
                f"the shards of state {state!r} must be one complete set, got {shards}; copy a "
                "valid checkpoint back"
            )
    return states


@dataclass
class _Read:
    """A tensor's memory and the bytes of a file that fill it."""

    start: int
    end: int
    into: memoryview


@dataclass(frozen=True)
class _File:
    """A file of a state: its tensors, their offset, its expected checksum, and what to read."""

    path: Path
    record: FileRecord
    data_offset: int
    entries: Mapping[str, safetensors_io.TensorEntry]
    reads: list[_Read] = field(default_factory=list)


def read_local_rows(
    files: Mapping[Path, FileRecord], rank: int = 0, size: int = 1
) -> dict[str, Tensor]:
    """The rows of one of `size` processes, from the files of a state in their order.

    A scalar, such as a number of steps, is the same for every process. Other rows are not held in
    memory, and each file is read and hashed once. Raises CheckpointError if a file does not match
    its record.
    """
    opened = [_open(path, record) for path, record in files.items()]
    tensors: dict[str, Tensor] = {}
    for name in {name: None for file in opened for name in file.entries}:
        holders = [file for file in opened if name in file.entries]
        first = holders[0].entries[name]
        dtype = safetensors_io.torch_dtype(first.dtype)
        for file in holders:
            _check_row_kind(file, name, first)
        if not first.shape:
            tensors[name] = torch.empty((), dtype=dtype)
            _request(holders[0], name, tensors[name], 0)
            continue
        counts = [file.entries[name].shape[0] for file in holders]
        local = local_rows(sum(counts), rank, size)
        tensors[name] = torch.empty((len(local), *first.shape[1:]), dtype=dtype)
        before = 0  # rows in the files before this one
        for file, count in zip(holders, counts, strict=True):
            rows = range(max(local.start, before), min(local.stop, before + count))
            if rows:
                part = tensors[name][rows.start - local.start : rows.stop - local.start]
                _request(file, name, part, rows.start - before)
            before += count
    for file in opened:
        _read(file)
    return tensors


def _check_row_kind(file: _File, name: str, first: safetensors_io.TensorEntry) -> None:
    """Raise CheckpointError unless the rows in this file can follow those in the first one."""
    entry = file.entries[name]
    same_rank = len(entry.shape) == len(first.shape)
    if not same_rank or (entry.dtype, entry.shape[1:]) != (first.dtype, first.shape[1:]):
        raise CheckpointError(
            f"{file.path}: {name} must have rows of {first.dtype} {list(first.shape[1:])} as in "
            f"the first file, got {entry.dtype} {list(entry.shape)}; copy a valid checkpoint back"
        )


def _open(path: Path, record: FileRecord) -> _File:
    entries = safetensors_io.read_header(path)
    with open_regular(path) as (file, _):
        data_offset = 8 + int.from_bytes(file.read(8), "little")
    return _File(path, record, data_offset, entries)


def _request(file: _File, name: str, into: Tensor, row: int) -> None:
    """Note which bytes of a file fill `into`, from one row of a tensor on."""
    entry = file.entries[name]
    row_bytes = into.element_size() * math.prod(entry.shape[1:])
    start = file.data_offset + entry.start + row * row_bytes
    if into.nbytes:
        memory = into.reshape(-1).view(torch.uint8).numpy().data
        file.reads.append(_Read(start, start + into.nbytes, memory))


def _read(file: _File) -> None:
    """Fill what was requested and verify the checksum of the whole file."""
    digest = hashlib.sha256()
    with open_regular(file.path) as (stream, size):
        position = 0
        for read in sorted(file.reads, key=lambda read: read.start):
            _hash_bytes(stream, read.start - position, digest)
            if stream.readinto(read.into) == len(read.into):
                digest.update(read.into)
            position = read.end
        _hash_bytes(stream, size - position, digest)
    if size != file.record.bytes or digest.hexdigest() != file.record.sha256:
        raise CheckpointError(f"{file.path}: changed while it was read; resume again")


def _hash_bytes(stream: BinaryIO, n: int, digest: "hashlib._Hash") -> None:
    """Read n bytes only to hash them."""
    while n > 0:
        data = stream.read(min(n, READ_CHUNK))
        if not data:
            return
        digest.update(data)
        n -= len(data)
