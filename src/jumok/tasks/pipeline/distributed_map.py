"""Work on many batches shared by the processes of a training: each once, everybody gets all."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from torch import Tensor

from jumok import safetensors_io as tensorfile
from jumok.processes import ProcessGroup, raise_together

PartT = TypeVar("P")
ResultT = TypeVar("R")


@dataclass(frozen=True)
class Codec(Generic[ResultT]):
    """How a result becomes bytes for the others, and is itself again; nothing is lost."""

    encode: Callable[[ResultT], bytes]
    decode: Callable[[bytes], ResultT]


TENSOR_CODEC: Codec[Mapping[str, Tensor]] = Codec(tensorfile.serialize, tensorfile.deserialize)
JSON_CODEC: Codec[Any] = Codec(lambda value: json.dumps(value).encode(), json.loads)


def distributed_map(
    parts: Sequence[PartT],
    work: Callable[[PartT], ResultT],
    processes: ProcessGroup,
    letter: Codec[ResultT],
) -> list[ResultT]:
    """`work` of every part, in their order; of W processes each does every W-th.

    A part is worked on as it would be alone, so the results are the same bits however many there
    are.

    >>> from jumok.processes import SINGLE_PROCESS
    >>> in_turns([1, 2, 3], lambda n: n * n, SINGLE_PROCESS, JSON_CODEC)
    [1, 4, 9]
    """
    if processes.size == 1:
        return [work(part) for part in parts]
    with raise_together(processes):
        mine = [letter.encode(work(part)) for part in parts[processes.rank :: processes.size]]
    packed = processes.all_gather_bytes(b"".join(len(one).to_bytes(8, "big") + one for one in mine))
    turns = [_cut(theirs) for theirs in packed]
    size = processes.size
    return [letter.decode(turns[i % size][i // size]) for i in range(len(parts))]


def _cut(data: bytes) -> list[bytes]:
    """The letters of one process, each behind its length."""
    letters, place = [], 0
    while place < len(data):
        begin = place + 8
        place = begin + int.from_bytes(data[place:begin], "big")
        letters.append(data[begin:place])
    return letters
