"""A map over batches that the processes of a run share: each batch once, all results everywhere."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from torch import Tensor

from jumok import safetensors_io
from jumok.processes import ProcessGroup, raise_together

PartT = TypeVar("PartT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class Codec(Generic[ResultT]):
    """A lossless encoding of results as bytes, to exchange them between processes."""

    encode: Callable[[ResultT], bytes]
    decode: Callable[[bytes], ResultT]


TENSOR_CODEC: Codec[Mapping[str, Tensor]] = Codec(
    safetensors_io.serialize, safetensors_io.deserialize
)
JSON_CODEC: Codec[Any] = Codec(lambda value: json.dumps(value).encode(), json.loads)


def distributed_map(
    parts: Sequence[PartT],
    function: Callable[[PartT], ResultT],
    processes: ProcessGroup,
    codec: Codec[ResultT],
) -> list[ResultT]:
    """`function` of every part, in their order; of W processes each computes every W-th part.

    A part is computed as in a single process, so the results are bit-identical for any number of
    processes.

    >>> from jumok.processes import SINGLE_PROCESS
    >>> distributed_map([1, 2, 3], lambda n: n * n, SINGLE_PROCESS, JSON_CODEC)
    [1, 4, 9]
    """
    if processes.size == 1:
        return [function(part) for part in parts]
    with raise_together(processes):
        local = [codec.encode(function(part)) for part in parts[processes.rank :: processes.size]]
    packed = b"".join(len(one).to_bytes(8, "big") + one for one in local)
    by_rank = [_unpack(data) for data in processes.all_gather_bytes(packed)]
    size = processes.size
    return [codec.decode(by_rank[i % size][i // size]) for i in range(len(parts))]


def _unpack(data: bytes) -> list[bytes]:
    """The results of one process, each after its length in 8 bytes."""
    results, at = [], 0
    while at < len(data):
        start = at + 8
        at = start + int.from_bytes(data[at:start], "big")
        results.append(data[start:at])
    return results
