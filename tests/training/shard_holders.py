"""Processes that hold a model in parts and look at it whole, with pickle watched.

python -m tests.training.shard_holders FOLDER SIZE

Printed is how each process ended, by rank: 0 when everything was as it must be.
"""

import copy
import os
import signal
import sys
from pathlib import Path

import torch
from torch import Tensor

from jumok.models import TextClassifier, TransformerConfig
from jumok.training.average import WeightAverage
from jumok.training.checkpoint import CheckpointStore
from jumok.training.distributed import Processes
from jumok.training.sharding import Shards
from tests.training.shard_writers import gang

CONFIG = TransformerConfig(vocabulary_size=50, d_model=16, n_heads=2, d_ff=32, n_layers=2)


def _refuse_pickle(event: str, arguments: tuple[object, ...]) -> None:
    if event.startswith("pickle"):
        print(f"{event} {arguments}", file=sys.stderr)
        os._exit(99)


def _hold(processes: Processes, folder: Path) -> int:
    """Whole, in parts, whole, in parts ... the same bits; in the end as if nothing had been."""
    sys.addaudithook(_refuse_pickle)
    torch.manual_seed(0)
    model = TextClassifier(CONFIG, 2).eval()
    ids = torch.randint(50, (4, 7))
    wanted = model(ids)
    known = {name: set(vars(module)) for name, module in model.named_modules()}

    def loss(batch: Tensor) -> Tensor:
        return model(batch).square().sum()  # type: ignore[no-any-return]

    cpu, store = torch.device("cpu"), CheckpointStore(folder)
    held = Shards(model, loss, processes, device=cpu, dtype=torch.float32)
    average = WeightAverage(held.parameters, 0.5)
    for value in average.values.values():
        value.zero_()
    for _ in range(2):
        with held.plain():
            assert torch.equal(model(ids), wanted)
        with held.averaged(average):
            assert not model(ids).any()
        held.loss(ids).backward()  # type: ignore[no-untyped-call]
    rows = {name: parameter.detach() for name, parameter in held.parameters.items()}
    held.commits_to(store).commit(1, {"model": rows}, {})
    for row in rows.values():
        row.zero_()
    held.finish(store.checkpoint(1))
    assert torch.equal(model(ids), wanted)
    assert torch.equal(copy.deepcopy(model)(ids), wanted)
    assert known == {name: set(vars(module)) for name, module in model.named_modules()}
    return 0


if __name__ == "__main__":
    signal.alarm(100)
    gang(int(sys.argv[2]), lambda processes: _hold(processes, Path(sys.argv[1])))
