"""Processes that hold a model in parts and look at it whole, with pickle watched.

python -m tests.training.fsdp_worker FOLDER SIZE

Printed is how each process ended, by rank: 0 when everything was as it must be.
"""

import copy
import os
import signal
import sys
from pathlib import Path

import torch
from jumok.training.ema_decay import EMA
from torch import Tensor, nn

from jumok.models import TextClassifier, TransformerConfig
from jumok.models.weights import named_weights
from jumok.processes import ProcessGroup, microbatches_of_rank
from jumok.training.checkpoints.resharding import local_rows
from jumok.training.checkpoints.store import CheckpointStore
from jumok.training.parallel.fsdp import FullyShardedDataParallel
from tests.training.sharded_checkpoint_worker import run_workers

CONFIG = TransformerConfig(vocabulary_size=50, d_model=16, n_heads=2, d_ff=32, n_layers=2)


def _refuse_pickle(event: str, arguments: tuple[object, ...]) -> None:
    if event.startswith("pickle"):
        print(f"{event} {arguments}", file=sys.stderr)
        os._exit(99)


def _hold(processes: ProcessGroup, folder: Path) -> int:
    """Whole, in parts, whole, in parts ... the same bits; in the end as if nothing had been.

    In between a step of 4 texts, whose gradients are those of a plain model, and their norm is.
    """
    sys.addaudithook(_refuse_pickle)
    torch.manual_seed(0)
    model = TextClassifier(CONFIG, 2).eval()
    ids = torch.randint(50, (4, 7))
    wanted = model(ids)
    known = {name: set(vars(module)) for name, module in model.named_modules()}

    def loss(batch: Tensor) -> Tensor:
        return model(batch).square().sum()  # type: ignore[no-any-return]

    loss(ids).backward()  # type: ignore[no-untyped-call]
    gradients = {name: p.grad for name, p in named_weights(model).items() if p.grad is not None}
    norm = nn.utils.get_total_norm(list(gradients.values()))
    model.zero_grad()
    cpu, store = torch.device("cpu"), CheckpointStore(folder)
    held = FullyShardedDataParallel(model, loss, processes, device=cpu, dtype=torch.float32)
    average = EMA(held.parameters, 0.5)
    for value in average.values.values():
        value.zero_()
    mine = microbatches_of_rank(processes.rank, processes.size, len(ids))  # 1, 1 and 2 of the texts

    def find(shard: int, *, idle: bool = False) -> None:
        share = 0.0 if idle else 1.0
        (share * held.loss(ids[shard : shard + 1])).backward()  # type: ignore[no-untyped-call]

    for _ in range(2):
        with held.unsharded():
            assert torch.equal(model(ids), wanted)
        with held.with_ema(average):
            assert not model(ids).any()
        held.gradients(mine, len(ids), find)
        torch.testing.assert_close(held.gradient_norm(), norm, rtol=1e-6, atol=0)
        for name, parameter in held.parameters.items():
            rows = local_rows(len(gradients[name]), processes.rank, processes.size)
            wanted_rows = gradients[name][rows.start : rows.stop]
            assert parameter.grad is not None
            torch.testing.assert_close(parameter.grad, wanted_rows, rtol=1e-5, atol=1e-6)
    kept = {name: parameter.detach() for name, parameter in held.parameters.items()}
    held.checkpoint_writer(store).commit(1, {"model": kept}, {})
    for rows_here in kept.values():
        rows_here.zero_()
    held.load_best(store.checkpoint(1))
    assert torch.equal(model(ids), wanted)
    assert torch.equal(copy.deepcopy(model)(ids), wanted)
    assert known == {name: set(vars(module)) for name, module in model.named_modules()}
    return 0


if __name__ == "__main__":
    signal.alarm(570)
    run_workers(int(sys.argv[2]), lambda processes: _hold(processes, Path(sys.argv[1])))
